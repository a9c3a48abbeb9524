#include "ptq/rounding/unrounded_layers.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "graph/choose.h"
#include "graph/operator_traits.h"
#include "graph/quantize/operators.h"
#include "graph/weighted_product.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Node;
using graph::PlannedConstant;
using graph::Tensor;

bool is_in_branch(const Graph& graph, const Node& node) {
  const auto index = static_cast<std::size_t>(&node - graph.nodes.data());
  return graph::Sides(graph, graph.outputs).is_on_one(index);
}

/// Returns what keeps a product with a planned weight from being a sum over its input's last axis, or over a
/// window.
std::string fault_of(const Graph& graph, const Node& node, std::size_t input) {
  if (graph::is_any(node, graph::trait::kRecurrent))
    return "which has several directions, gates before the state's product, or a register to keep";
  const auto product = graph::weighted_product(node, 2);
  if (!product || product->terms == graph::Terms::kTransposed) return "which is no MatMul, Gemm or Conv";
  if (input != 1) return "which has it in front of what samples bring";
  if (graph::Links(graph).consumers(node.inputs[1]).size() != 1) return "and not by it alone";
  if (!product->is_convolution() && product->bias != graph::kNoInput)
    return "which has an alpha, beta or transA of its own; a Gemm of alpha and beta 1 without transA has not";
  if (is_in_branch(graph, node)) return "which lies in a branch of an If, to which not every sample comes";
  return "whose axes are not those of one matrix for each sample";
}

class UnroundedReasons {
 public:
  /// parts: reasons of open layers outside them alone; null: of all layers.
  UnroundedReasons(const Setting& setting, const RoundedParts* parts) : setting_(setting) {
    for (std::size_t i = 0; i < setting.plan.constants.size(); ++i) {
      const PlannedConstant& constant = setting.plan.constants[i];
      const bool is_left = parts && std::ranges::find(parts->left, i) != parts->left.end();
      if (!parts || (constant.spec && !constant.rounded && !parts->contain(i) && !is_left))
        planned_[constant.value] = &constant;
    }
    is_beside_ = parts != nullptr;
  }

  std::string text() {
    const graph::Constants constants(setting_.graph);
    for (const Node& node : setting_.graph.nodes)
      for (const graph::WeightInput& weight : graph::weight_inputs(setting_.graph, node, constants))
        if (!weight.is_embedding) look_at(node, weight.input);
    std::string all;
    for (const auto& [why, layers] : reasons_)
      all += (all.empty() ? "" : "; ") + count_text(layers.size(), "weight") + " (" +
             (layers.size() > 1 ? "the first is " : "") + quote_text(layers[0]) + ") " + why;
    return all;
  }

 private:
  void look_at(const Node& node, std::size_t input) {
    const std::string& name = node.inputs[input];
    const Tensor* tensor = setting_.graph.constant(name);
    const auto found = planned_.find(name);
    if (is_beside_ && found == planned_.end()) return;
    if (tensor && tensor->type() != graph::ElementType::kFloat)
      add(name, "of type " + std::string(graph::name_of(tensor->type())) + ": only float32 becomes codes");
    else if (found == planned_.end())
      add(name, "computed, or in codes already");
    else if (found->second->rounded)
      add(name, "with codes of a stage before");
    else if (!found->second->spec)
      add(name, "kept: " + found->second->kept_because);
    else
      add(name, "taken by " + graph::text_of(node) + ", " + fault_of(setting_.graph, node, input));
  }

  void add(const std::string& name, const std::string& why) {
    const auto found =
        std::ranges::find(reasons_, why, &std::pair<std::string, std::vector<std::string>>::first);
    if (found != reasons_.end())
      found->second.push_back(name);
    else
      reasons_.push_back({why, {name}});
  }

  const Setting& setting_;
  bool is_beside_ = false;
  std::map<std::string, const PlannedConstant*> planned_;
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons_;  ///< in the graph's order
};

}  // namespace

std::string reasons_of_unrounded_layers(const Setting& setting) {
  const std::string text = UnroundedReasons(setting, nullptr).text();
  return text.empty() ? text : ": " + text;
}

std::string layers_beside(const RoundedParts& parts, const Setting& setting) {
  return UnroundedReasons(setting, &parts).text();
}

}  // namespace crumb::ptq
