#include "jobs/evaluate/layers/alone_costs.h"

#include <algorithm>
#include <limits>

#include "base/files/interrupt.h"
#include "graph/part.h"

namespace crumb::jobs {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;
using graph::Tensor;

/// What a layer changes.
struct Behind {
  std::vector<std::string> in_front;  ///< values that do not follow from it, without inputs and constants
  std::vector<std::string> outputs;   ///< of the network, that follow from it
};

Behind behind(const LayeredNetwork& network, std::size_t first) {
  const Graph& graph = network.graph();
  std::set<std::string> changed;
  Behind found;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool follows = i == first || std::ranges::any_of(node.inputs, [&](const std::string& input) {
                           return changed.contains(input);
                         });
    for (const std::string& output : node.outputs) {
      if (output.empty() || network.constants().contains(output)) continue;
      if (follows)
        changed.insert(output);
      else
        found.in_front.push_back(output);
    }
  }
  for (const std::string& output : graph.outputs)
    if (changed.contains(output)) found.outputs.push_back(output);
  return found;
}

/// The part of the changed baseline that computes what the layer changes.
Graph part_behind(const Graph& changed, const Behind& from) {
  return graph::part_of(changed, from.in_front, from.outputs);
}

}  // namespace

std::set<std::string> values_in_front(const LayerPair& pair) {
  const Behind from = behind(*pair.baseline, pair.of_baseline->node);
  if (from.outputs.empty()) return {};
  const Graph part = part_behind(with_model_layer(pair, {}), from);
  std::set<std::string> values(part.inputs.begin(), part.inputs.end());
  for (const std::string& input : pair.baseline->graph().inputs) values.erase(input);
  return values;
}

std::optional<double> cost_alone(const LayerPair& pair, const std::vector<Tensor>& weights,
                                 const BaselineRuns& runs, const LayerSamples& samples,
                                 const PrepareGraph& prepare) {
  const Graph& baseline = pair.baseline->graph();
  const Behind from = behind(*pair.baseline, pair.of_baseline->node);
  if (from.outputs.empty()) return std::numeric_limits<double>::infinity();
  Graph graph = with_model_layer(pair, weights);
  Graph part = part_behind(graph, from);
  std::set<std::string> values(part.inputs.begin(), part.inputs.end());
  for (const std::string& input : baseline.inputs) values.erase(input);
  const bool is_part = runs.has(values);
  if (!is_part) {
    part = std::move(graph);
    part.outputs = from.outputs;
  }
  const auto executable = prepare(part);
  ResultLoss loss(baseline);
  for (std::size_t i = 0; i < samples.pieces.size(); ++i) {
    check_interrupt();
    std::vector<Tensor> inputs;
    for (const std::string& input : part.inputs) {
      const auto own = std::ranges::find(baseline.inputs, input);
      inputs.push_back(own != baseline.inputs.end()
                           ? samples.pieces[i][static_cast<std::size_t>(own - baseline.inputs.begin())]
                           : runs.value(i, input));
    }
    const std::vector<Tensor> made = executable->run(inputs);
    std::vector<std::optional<Tensor>> found;
    for (const std::string& output : baseline.outputs) {
      const auto at = std::ranges::find(from.outputs, output);
      found.push_back(at == from.outputs.end()
                          ? std::nullopt
                          : std::optional(made[static_cast<std::size_t>(at - from.outputs.begin())]));
    }
    loss.add(runs.results(i), found);
  }
  return loss.sqnr_db();
}

}  // namespace crumb::jobs
