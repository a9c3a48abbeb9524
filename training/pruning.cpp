#include "training/pruning.h"

#include <cmath>

#include "analysis/cost/cost.h"
#include "graph/facts/bind_shapes.h"
#include "graph/qonnx/quantized_constants.h"

namespace crumb::training {
namespace {

double zero_share(double zeros, double weights) { return weights > 0 ? zeros / weights : 0; }

}  // namespace

Json pruning_json(const graph::Graph& frozen, double pruned) {
  const analysis::GraphCost cost =
      analysis::cost_of(graph::bind_shapes(graph::lower_or_fold_quantized(frozen), {}));
  Json layers = Json::array();
  double weights = 0, zeros = 0;
  for (const analysis::NodeCost& node : cost.nodes) {
    if (node.weights == 0) continue;
    const double own = std::round(node.weights * (1 - node.density));
    weights += node.weights;
    zeros += own;
    layers.push_back({{"name", node.name},
                      {"weights", json_amount(node.weights)},
                      {"sparsity", zero_share(own, node.weights)},
                      {"bops", json_amount(node.sparse.bops_qap)},
                      {"bops_dense", json_amount(node.dense.bops_qap)}});
  }
  return {{"pruned", pruned},
          {"sparsity", zero_share(zeros, weights)},
          {"bops", json_amount(cost.sparse.bops_qap)},
          {"bops_dense", json_amount(cost.dense.bops_qap)},
          {"layers", std::move(layers)}};
}

}  // namespace crumb::training
