#include "ptq/rounding/branch_moments.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/files/interrupt.h"
#include "graph/choose.h"

namespace crumb::ptq {
namespace {

using graph::Tensor;

/// Layers on one side of one If run together; sides do not share what reaches them.
struct Branch {
  std::vector<std::size_t> layers;  ///< indices
  Station station;
  std::unique_ptr<StationMoments> moments;
};

/// A value that is made where the node runs.
const std::string& made_by(const graph::Node& node) {
  return *std::ranges::find_if(node.outputs, [](const std::string& name) { return !name.empty(); });
}

std::map<std::size_t, Branch> branches_of(const std::vector<SampledLayer>& layers,
                                          const graph::Graph& graph) {
  const graph::Sides sides(graph, graph.outputs);
  std::map<std::size_t, Branch> branches;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Branch& branch = branches[sides.of(layers[i].node)];
    branch.layers.push_back(i);
    branch.station.layers.push_back(layers[i]);
  }
  return branches;
}

}  // namespace

std::vector<LayerMoments> moments_in_branches(const std::vector<SampledLayer>& layers, const Setting& setting,
                                              bool even) {
  if (layers.empty()) return {};
  const graph::Graph& graph = setting.graph;
  std::map<std::size_t, Branch> branches = branches_of(layers, graph);
  std::set<std::string> wanted;
  for (auto& [side, branch] : branches) {
    branch.moments = std::make_unique<StationMoments>(graph, branch.station, false, even);
    for (const SampledLayer& layer : branch.station.layers)
      wanted.insert({layer.input, made_by(graph.nodes[layer.node])});
  }
  const std::unique_ptr<graph::Executable> network = setting.engine->prepare(graph);
  setting.samples([&](const std::vector<Tensor>& sample) {
    check_interrupt();
    std::map<std::string, Tensor> brought;
    for (std::size_t i = 0; i < sample.size(); ++i)
      if (wanted.contains(graph.inputs[i])) brought[graph.inputs[i]] = sample[i];
    const auto keep = [&](const std::string& value, const Tensor& made) { brought[value] = made; };
    network->run(sample, {.show = keep, .wanted = wanted});
    for (auto& [side, branch] : branches)
      if (brought.contains(made_by(graph.nodes[branch.station.layers.front().node])))
        branch.moments->add(brought, brought, setting.threads);
  });
  std::vector<LayerMoments> all(layers.size());
  for (auto& [side, branch] : branches)
    for (const std::size_t i : branch.layers) all[i] = branch.moments->take(layers[i]);
  return all;
}

}  // namespace crumb::ptq
