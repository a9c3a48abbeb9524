// Which matrices of a graph are mostly zeros (graph/sparse_products.h) and are held as sparse matrices by
// kernels.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "graph/sparse_products.h"
#include "runtime/operator.h"

namespace crumb::runtime {

/// Matrices that only nodes with a row that holds_sparse take. Nodes in `instead` have other kernels.
class HeldSparse {
 public:
  HeldSparse(const graph::Graph& graph, const Substitutes& instead);

  /// Whether the node makes nothing but such a matrix, and need not run.
  bool makes(std::size_t node) const { return makers_.contains(node); }

  /// The sparse matrix that is the value; null where it is none.
  const graph::SparseMatrix* find(const std::string& value) const;

 private:
  std::map<std::string, graph::SparseMatrix> matrices_;
  std::set<std::size_t> makers_;
};

}  // namespace crumb::runtime
