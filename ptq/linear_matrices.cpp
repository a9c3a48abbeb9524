#include "ptq/linear_matrices.h"

#include <map>
#include <string>

namespace crumb::ptq {

std::vector<LinearMatrix> open_linear_matrices(const Setting& setting) {
  std::map<std::string, const graph::PlannedConstant*> planned;
  for (const graph::PlannedConstant& constant : setting.plan.constants)
    if (constant.spec && !constant.rounded) planned[constant.value] = &constant;
  std::vector<LinearMatrix> matrices;
  std::map<std::string, std::size_t> places;
  for (graph::LinearProduct& product : graph::linear_products(setting.graph)) {
    const auto found = planned.find(product.weight);
    if (found == planned.end()) continue;
    const auto [place, is_new] = places.emplace(product.weight, matrices.size());
    if (is_new) matrices.push_back({.constant = found->second, .products = {}});
    matrices[place->second].products.push_back(std::move(product));
  }
  return matrices;
}

}  // namespace crumb::ptq
