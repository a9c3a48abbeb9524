#include "ptq/rounding/branch_weights.h"

#include <utility>

namespace crumb::ptq {

using graph::LinearProduct;

BranchWeights::BranchWeights(const graph::Graph& graph) {
  std::map<std::string, std::vector<LowRankUpdate>> by_module;
  for (const std::string& name : graph::adapter_names(graph))
    for (LowRankUpdate& update : graph::adapter_of(graph, name).updates)
      by_module[update.module].push_back(std::move(update));
  const graph::Links links(graph);
  for (const LinearProduct& product : graph::linear_products(graph)) {
    if (const auto found = by_module.find(product.module); found != by_module.end())
      updates_[product.weight] = found->second;
    if (const auto sparse = graph::sparse_beside(graph, links, product)) numbers_[product.weight] = *sparse;
  }
}

std::vector<float> BranchWeights::of(const std::string& constant) const {
  const auto updates = updates_.find(constant);
  const auto numbers = numbers_.find(constant);
  std::vector<float> all;
  if (updates != updates_.end()) {
    all.resize(updates->second.front().out * updates->second.front().in);
    graph::merge(updates->second, all);
  }
  if (numbers == numbers_.end()) return all;
  const graph::SparseMatrix& matrix = numbers->second;  // [in, out]
  all.resize(static_cast<std::size_t>(matrix.rows * matrix.columns));
  for (std::size_t i = 0; i < matrix.places.size(); ++i) {
    const std::int64_t row = matrix.places[i] / matrix.columns, column = matrix.places[i] % matrix.columns;
    all[static_cast<std::size_t>(column * matrix.rows + row)] += matrix.numbers[i];
  }
  return all;
}

}  // namespace crumb::ptq
