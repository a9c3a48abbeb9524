#include "cli/train_pruning.h"

#include <cmath>
#include <iostream>

#include "analysis/cost/cost.h"
#include "graph/facts/bind_shapes.h"
#include "graph/qonnx/quantized_constants.h"

namespace crumb::cli {
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

void print_pruning(const Json& pruning) {
  const auto percent = [](const Json& share) { return fixed(100 * share.get<double>(), 1) + " %"; };
  const auto row = [&](const std::string& name, const std::string& weights, const Json& of) {
    return std::vector<std::string>{name, weights, percent(of.at("sparsity")), fixed(of.at("bops"), 0),
                                    fixed(of.at("bops_dense"), 0)};
  };
  std::vector<std::vector<std::string>> rows{{"layer", "weights", "zeros", "BOPs", "BOPs, dense"}};
  double weights = 0;
  for (const Json& layer : pruning.at("layers")) {
    weights += layer.at("weights").get<double>();
    rows.push_back(row(layer.at("name"), fixed(layer.at("weights"), 0), layer));
  }
  rows.push_back(row("all", fixed(weights, 0), pruning));
  std::cout << percent(pruning.at("pruned")) << " of the weights pruned\n";
  print_table(std::move(rows));
}

}  // namespace crumb::cli
