#include "qat/activations/edge_quantizers.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>

#include "graph/buffers.h"
#include "graph/quantize/apply.h"
#include "libtorch/execute/graph_module.h"
#include "libtorch/execute/ops/straight_through.h"
#include "libtorch/fake_quantize.h"
#include "qat/child_name.h"

namespace crumb::qat {

EdgeQuantizers::EdgeQuantizers(const std::vector<graph::PlannedEdge>& edges, torch::nn::Module& owner)
    : edges_(edges) {
  std::size_t count = 0;
  for (const graph::PlannedEdge& edge : edges) count = std::max(count, edge.scale_group + 1);
  groups_.resize(count);
  for (const graph::PlannedEdge& edge : edges) {
    std::shared_ptr<ActivationQuantizer>& group = groups_[edge.scale_group];
    if (group || !edge.has_own_scale()) continue;
    group = std::make_shared<ActivationQuantizer>(edge.spec);
    owner.register_module(child_name(owner, edge.value), group);
  }
}

at::Tensor EdgeQuantizers::quantized(std::size_t edge, const at::Tensor& values) const {
  const graph::PlannedEdge& planned = edges_[edge];
  if (planned.spec.is_dynamic()) return fake_quantize(values, planned.spec);
  if (!planned.truncation) return groups_[planned.scale_group]->forward(values, planned.spec);
  // Executes the operators of the frozen graph (truncating_nodes) one by one.
  const graph::Truncation& how = *planned.truncation;
  const float step = scale(how.input);
  const at::Tensor sums = (values.detach() * static_cast<float>(how.size) / step).round();
  const at::Tensor cut = (sums * std::ldexp(1.0F, -how.shift())).floor() * step;
  return libtorch::straight_through(values, cut * static_cast<float>(how.factor()));
}

float EdgeQuantizers::scale(std::size_t edge) const {
  const graph::PlannedEdge& planned = edges_[edge];
  if (planned.truncation) {
    return scale(planned.truncation->input) * static_cast<float>(planned.truncation->factor());
  }
  return planned.has_own_scale() ? groups_[planned.scale_group]->scale() : 0;
}

float EdgeQuantizers::zero_point(std::size_t edge) const {
  return edges_[edge].has_own_scale() ? groups_[edges_[edge].scale_group]->zero_point() : 0;
}

void EdgeQuantizers::set(const std::vector<graph::PlannedEdge>& calibrated) {
  for (const graph::PlannedEdge& edge : calibrated) {
    if (edge.has_own_scale()) groups_[edge.scale_group]->set(edge.scale, edge.zero_point);
  }
}

graph::Graph with_edge_quantizers(const graph::Graph& graph, graph::QuantPlan plan) {
  for (graph::PlannedConstant& constant : plan.constants) constant.spec.reset();
  for (graph::PlannedEdge& edge : plan.edges) {
    edge.scale = 1;
    edge.truncation.reset();
    if (edge.spec.is_dynamic()) edge.spec.granularity = Granularity::kTensor;
  }
  if (plan.kv_cache) plan.kv_cache->granularity = Granularity::kTensor;
  plan.biases.clear();
  graph::Graph made = graph::apply(graph, plan);
  for (const auto& [name, constant] : made.initializers) {
    if (!graph.initializers.contains(name)) graph::add_buffer(made, name);
  }
  return made;
}

}  // namespace crumb::qat
