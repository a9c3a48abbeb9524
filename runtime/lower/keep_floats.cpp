#include "runtime/lower/keep_floats.h"

#include <set>
#include <vector>

#include "runtime/lower/domain.h"

namespace crumb::runtime {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;

/// The codes that stay codes: those that a product takes or makes, or the file, and all that they are moved
/// to or from.
class KeptCodes {
 public:
  KeptCodes(const Graph& graph, const std::map<std::string, std::string>& values,
            const std::map<std::string, Node>& movers)
      : graph_(graph), links_(graph), values_(values), movers_(movers) {
    for (const Node& node : graph.nodes) {
      if (node.is("Codes", kRuntimeDomain) || node.is("Values", kRuntimeDomain) || is_mover(node)) continue;
      for (const std::string& taken : node.inputs) keep(taken);
      for (const std::string& made : node.outputs) keep(made);
    }
    for (const std::string& input : graph.inputs) keep(input);
    while (!open_.empty()) {
      const std::string codes = open_.back();
      open_.pop_back();
      spread(codes);
    }
  }

  bool contains(const std::string& codes) const { return kept_.contains(codes); }

 private:
  bool is_mover(const Node& node) const { return movers_.contains(node.outputs[0]); }

  void keep(const std::string& codes) {
    if (values_.contains(codes) && kept_.insert(codes).second) open_.push_back(codes);
  }

  void spread(const std::string& codes) {
    const std::size_t producer = links_.producer(codes);
    if (producer != Links::kNone && is_mover(graph_.nodes[producer])) {
      for (const std::string& taken : graph_.nodes[producer].inputs) keep(taken);
    }
    for (const std::size_t taker : links_.consumers(codes)) {
      if (is_mover(graph_.nodes[taker])) keep(graph_.nodes[taker].outputs[0]);
    }
  }

  const Graph& graph_;
  const Links links_;
  const std::map<std::string, std::string>& values_;
  const std::map<std::string, Node>& movers_;
  std::set<std::string> kept_;
  std::vector<std::string> open_;
};

}  // namespace

void keep_in_floats(Graph& graph, const std::map<std::string, std::string>& values,
                    const std::map<std::string, Node>& movers) {
  const KeptCodes kept(graph, values, movers);
  const auto is_float_again = [&](const std::string& codes) {
    return values.contains(codes) && !kept.contains(codes);
  };
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    if (node.is("Values", kRuntimeDomain) && is_float_again(node.inputs[0])) continue;
    const std::string made = node.outputs[0];
    if (is_float_again(made)) {
      if (node.is("Codes", kRuntimeDomain)) {
        node.op = "Quantized";
        node.attributes.erase("type");
        node.outputs[0] = values.at(made);
      } else {
        node = movers.at(made);
      }
      graph.values.erase(made);
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace crumb::runtime
