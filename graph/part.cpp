#include "graph/part.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/files/text.h"
#include "graph/buffers.h"
#include "graph/edit.h"

namespace crumb::graph {
namespace {

class Cutter {
 public:
  Cutter(const Graph& graph, const std::vector<std::string>& ends)
      : graph_(graph), links_(graph), ends_(ends), read_(ends.size()) {
    find_repeated();
    for (std::size_t part = 0; part < ends.size(); ++part) take_nodes(part);
  }

  std::vector<CutPart> run() const {
    std::vector<CutPart> parts;
    for (std::size_t part = 0; part < ends_.size(); ++part) {
      CutPart made{.graph = part_of(graph_, in_order(read_[part]), outputs_of(part))};
      for (const std::string& value : in_order(read_[part]))
        if (last_reader(value) == part) made.last_read.push_back(value);
      parts.push_back(std::move(made));
    }
    return parts;
  }

 private:
  /// Nodes that follow from inputs and buffers alone.
  void find_repeated() {
    const std::set<std::string> buffers_here = buffers(graph_);
    const auto is_weight = [&](const std::string& value) {
      const Tensor* constant = graph_.constant(value);
      return graph_.quantized.contains(value) ||
             (constant && is_float(constant->type()) && !buffers_here.contains(value));
    };
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const bool repeats =
          !is_random(node) && std::ranges::all_of(node.inputs, [&](const std::string& input) {
            const std::size_t maker = links_.producer(input);
            return maker == Links::kNone ? !is_weight(input) : repeated_.contains(maker);
          });
      if (repeats) repeated_.insert(i);
    }
  }

  /// What the end of a part needs and no earlier part has.
  void take_nodes(std::size_t part) {
    const std::size_t end = links_.producer(ends_[part]);
    if (end == Links::kNone) throw Error("no node makes the value " + quote_text(ends_[part]));
    if (parts_.contains(end))
      throw Error("the value " + quote_text(ends_[part]) + " is made before " + quote_text(ends_[part - 1]) +
                  ", so no part ends with it");
    std::set<std::string> needed{ends_[part]};
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      const auto is_needed = [&](const std::string& output) {
        return !output.empty() && needed.contains(output);
      };
      if (std::ranges::none_of(node.outputs, is_needed)) continue;
      if (parts_.contains(i)) {
        std::ranges::copy_if(node.outputs, std::inserter(read_[part], read_[part].end()), is_needed);
        continue;
      }
      if (!repeated_.contains(i)) parts_[i] = part;
      needed.insert(node.inputs.begin(), node.inputs.end());
    }
  }

  std::size_t last_reader(const std::string& value) const {
    std::size_t last = 0;
    for (std::size_t part = 0; part < read_.size(); ++part)
      if (read_[part].contains(value)) last = part;
    return last;
  }

  /// The end, then what later parts read.
  std::vector<std::string> outputs_of(std::size_t part) const {
    std::set<std::string> made;
    for (const std::set<std::string>& read : read_)
      for (const std::string& value : read)
        if (value != ends_[part] && parts_.at(links_.producer(value)) == part) made.insert(value);
    std::vector<std::string> outputs{ends_[part]};
    std::ranges::copy(in_order(made), std::back_inserter(outputs));
    return outputs;
  }

  /// As the graph makes them.
  std::vector<std::string> in_order(const std::set<std::string>& values) const {
    std::vector<std::string> ordered(values.begin(), values.end());
    std::ranges::stable_sort(ordered, {}, [&](const std::string& value) { return links_.producer(value); });
    return ordered;
  }

  const Graph& graph_;
  const Links links_;
  const std::vector<std::string>& ends_;
  std::set<std::size_t> repeated_;            // nodes that each part computes for itself
  std::map<std::size_t, std::size_t> parts_;  // of the other nodes that are needed
  std::vector<std::set<std::string>> read_;   // by part: what earlier ones make
};

}  // namespace

Graph part_of(const Graph& graph, const std::vector<std::string>& given,
              const std::vector<std::string>& wanted) {
  const Links links(graph);
  for (const std::string& value : wanted)
    if (links.producer(value) == Links::kNone) throw Error("no node makes the value " + quote_text(value));
  std::set<std::string> needed(wanted.begin(), wanted.end());
  std::set<std::size_t> nodes;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const bool is_needed = std::ranges::any_of(node.outputs, [&](const std::string& output) {
      return !output.empty() && needed.contains(output) && std::ranges::find(given, output) == given.end();
    });
    if (!is_needed) continue;
    nodes.insert(i);
    needed.insert(node.inputs.begin(), node.inputs.end());
  }
  Graph part = graph;
  part.nodes.clear();
  for (const std::size_t i : nodes) part.nodes.push_back(graph.nodes[i]);
  part.outputs = wanted;
  std::erase_if(part.inputs, [&](const std::string& input) { return !needed.contains(input); });
  for (const std::string& value : given)
    if (needed.contains(value)) part.inputs.push_back(value);
  drop_unused(part);
  return part;
}

std::vector<CutPart> cut_behind(const Graph& graph, const std::vector<std::string>& ends) {
  return Cutter(graph, ends).run();
}

}  // namespace crumb::graph
