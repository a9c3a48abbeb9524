// Single weights of a matrix in 16 bits, in addition to the codes of the others: the dense-and-sparse split
// of SqueezeLLM (Kim et al. 2023, arXiv:2306.07629), as nodes of a network.
//
// A product y = MatMul(x, W), where W is Q plus few numbers, becomes
//
//   places = CumSum(Cast(MODULE.outliers.gaps))     uint16 [n]
//   numbers = Cast(MODULE.outliers.numbers)         float16 [n]
//   S = Reshape(ScatterElements(zeros, places, numbers), [in, out])
//   y = Add(MatMul(x, Q), MatMul(x, S))
//
// MODULE is the name of the constant W without ".weight". A Gemm gets the same nodes. `places` are row-major
// indices of elements of [in, out]. A gap is the difference of two successive indices; the first gap counts
// from 0. Numbers that are 0 split gaps beyond 65,535. Every engine of ONNX has these operators (from set 11
// on). Crumb's own engine multiplies only by the elements that are not 0, and gets the same bits as with the
// whole matrix.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/adapters.h"
#include "graph/branches.h"
#include "graph/graph.h"

namespace crumb::graph {

struct SparseMatrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> places;  ///< row-major indices of elements, ascending
  std::vector<float> numbers;
};

/// Returns the numbers as they are stored: rounded to float16.
std::vector<float> as_kept(const std::vector<float>& numbers);

/// Adds the matrix as a branch to each of these products, which share one weight matrix. No training changes
/// its numbers. Preconditions: indices are ascending and within [in, out], numbers are those that as_kept()
/// gives; no product has such a branch, and the graph imports operator set 11 or later. Products and indices
/// of nodes stay valid; the graph is not sorted afterwards.
std::vector<Branch> add_sparse(Graph& graph, const std::vector<LinearProduct>& products,
                               const SparseMatrix& matrix);

/// Whether the product has such a branch.
bool has_sparse(const Graph& graph, const LinearProduct& product);

/// Returns the matrix that those nodes compute as this value, also where Casts of its constants were removed.
/// `nodes` receives the nodes that only serve to compute it.
std::optional<SparseMatrix> sparse_matrix(const Graph& graph, const Links& links, const std::string& value,
                                          std::set<std::size_t>* nodes = nullptr);

/// Returns the matrix of a product's branch, if it has one.
std::optional<SparseMatrix> sparse_beside(const Graph& graph, const Links& links,
                                          const LinearProduct& product);

/// Returns the nodes that build such matrices of products. Folding them would give constants as large as any
/// weight.
std::set<std::size_t> sparse_makers(const Graph& graph);

}  // namespace crumb::graph
