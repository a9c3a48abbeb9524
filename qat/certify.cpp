#include "qat/certify.h"

#include <algorithm>

#include "analysis/accumulator/check.h"

namespace crumb::qat {

graph::Graph certified(graph::Graph graph, const std::map<std::string, AccumulatorGoal>& goals) {
  if (goals.empty()) return graph;
  std::map<std::string, analysis::CertificateRequest> requests;
  for (graph::Node& node : graph.nodes) {
    const auto weight =
        std::ranges::find_if(node.inputs, [&](const std::string& input) { return goals.contains(input); });
    if (weight == node.inputs.end()) continue;
    if (node.name.empty()) node.name = graph.unused_node_name(node.op);
    const AccumulatorGoal& goal = goals.at(*weight);
    requests[node.name] = {.method = goal.method == AccumulatorGoal::Method::kA2q
                                         ? graph::AccumulatorMethod::kA2q
                                         : graph::AccumulatorMethod::kA2qPlus,
                           .bits = goal.bits,
                           .tile = static_cast<std::size_t>(goal.tile)};
  }
  for (const analysis::AccumulatorRow& row : analysis::check_accumulators(graph).layers) {
    if (!row.bits_needed || row.weight || requests.contains(row.name)) continue;
    requests[row.name] = {.bits = *row.bits_needed, .rounding = "half_even", .constrained = false};
  }
  return analysis::with_certificates(std::move(graph), requests);
}

}  // namespace crumb::qat
