#include "models/gemma_gains.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "graph/edit.h"

namespace crumb::models {
namespace {

/// What gives these by adding one to it.
std::optional<std::vector<float>> less_one(const std::vector<float>& gains) {
  std::vector<float> weights;
  for (const float gain : gains) {
    const float weight = gain - 1.0F;
    if (weight + 1.0F != gain) return std::nullopt;
    weights.push_back(weight);
  }
  return weights;
}

}  // namespace

graph::Graph with_weights_of_gains(graph::Graph graph) {
  std::vector<graph::Node> sums;
  std::string one;
  for (const graph::Node& node : graph.nodes) {
    if (!node.is("RMSNormalization") || !node.has_input(1) || node.inputs[1] != node.name + ".scale")
      continue;
    const std::string scale = node.inputs[1], weight = node.name + ".weight";
    const graph::Tensor* gains = graph.constant(scale);
    if (!gains || gains->type() != graph::ElementType::kFloat || graph.find(weight)) continue;
    const std::optional<std::vector<float>> weights = less_one(gains->to_floats());
    if (!weights) continue;
    const std::vector<std::int64_t> shape = gains->shape();
    graph.initializers.erase(scale);
    graph::add_constant(graph, weight, graph::Tensor::floats(shape, *weights));
    if (one.empty()) one = graph::add_constant(graph, "one", graph::Tensor::scalar(1.0F));
    sums.push_back({.name = graph.unused_node_name(scale),
                    .op = "Add",
                    .version = graph.opset(),
                    .inputs = {weight, one},
                    .outputs = {scale}});
  }
  graph.nodes.insert(graph.nodes.begin(), sums.begin(), sums.end());
  return graph;
}

}  // namespace crumb::models
