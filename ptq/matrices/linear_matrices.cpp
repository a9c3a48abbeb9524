#include "ptq/matrices/linear_matrices.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/files/text.h"

namespace crumb::ptq {
namespace {

using graph::LinearProduct;

/// Returns why the matrix cannot have a branch; empty if it can.
std::string hindrance(const graph::Links& links, const LinearMatrix& matrix,
                      const std::set<std::string>& of_its_module) {
  const LinearProduct& first = matrix.products[0];
  if (links.is_output(first.weight)) return "it is an output of the network";
  if (links.consumers(first.weight).size() != matrix.products.size())
    return "the network does more with it than multiply";
  if (!std::ranges::all_of(matrix.products, [&](const LinearProduct& one) {
        return one.is_transposed == first.is_transposed;
      }))
    return "products take it both as it lies and transposed";
  return of_its_module.size() > 1 ? "another matrix is called " + quote_text(first.module) + ", too"
                                  : std::string();
}

}  // namespace

LinearMatrices open_linear_matrices(const Setting& setting) {
  std::map<std::string, const graph::PlannedConstant*> planned;
  for (const graph::PlannedConstant& constant : setting.plan.constants)
    if (constant.spec && !constant.rounded) planned[constant.value] = &constant;
  std::vector<LinearMatrix> all;
  std::map<std::string, std::size_t> indices;
  std::map<std::string, std::set<std::string>> by_module;
  for (LinearProduct& product : graph::linear_products(setting.graph)) {
    by_module[product.module].insert(product.weight);
    const auto found = planned.find(product.weight);
    if (found == planned.end()) continue;
    const auto [entry, is_new] = indices.emplace(product.weight, all.size());
    if (is_new) all.push_back({.constant = found->second, .products = {}});
    all[entry->second].products.push_back(std::move(product));
  }
  const graph::Links links(setting.graph);
  LinearMatrices found;
  for (LinearMatrix& matrix : all) {
    const std::string why = hindrance(links, matrix, by_module.at(matrix.products[0].module));
    if (why.empty())
      found.matrices.push_back(std::move(matrix));
    else
      found.notes.push_back(quote_text(matrix.constant->value) + " stays whole: " + why);
  }
  return found;
}

}  // namespace crumb::ptq
