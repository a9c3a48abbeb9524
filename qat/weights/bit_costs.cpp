#include "qat/weights/bit_costs.h"

#include <cmath>

#include "analysis/cost/cost.h"
#include "base/error.h"
#include "base/files/text.h"
#include "graph/facts/bind_shapes.h"

namespace crumb::qat {

BopsByWeight bops_by_weight(const graph::Graph& graph, const std::set<std::string>& weights) {
  std::map<std::string, std::string> weight_of;  // by the node's name
  for (const graph::Node& node : graph.nodes) {
    for (const std::string& input : node.inputs) {
      if (!weights.contains(input)) continue;
      const auto [first, added] = weight_of.try_emplace(node.name, input);
      if (added || first->second == input) continue;
      throw Error("two nodes are called " + quote_text(node.name) +
                  "; bit operations are counted by names, which must differ");
    }
  }
  BopsByWeight found;
  for (const std::string& weight : weights) found.per_bit[weight] = 0;
  for (const analysis::NodeCost& node : analysis::cost_of(graph::bind_shapes(graph, {})).nodes) {
    found.rest += node.dense.bops_qap;
    const auto weight = weight_of.find(node.name);
    if (weight == weight_of.end()) continue;
    const double per_bit = node.dense.macs * (node.input.bits() + 1);
    found.rest -= per_bit * node.weight.bits();
    found.per_bit[weight->second] += static_cast<std::uint64_t>(std::llround(per_bit));
  }
  return found;
}

}  // namespace crumb::qat
