// Single weights of a matrix in 16 bits beside codes of the rest: the dense-and-sparse split of SqueezeLLM (Kim et al. 2023,
// arXiv:2306.07629), as nodes of a network.
//
// A product y = MatMul(x, W) whose W is Q plus few numbers becomes
//
//   places = CumSum(Cast(MODULE.outliers.gaps))     uint16 [n]
//   numbers = Cast(MODULE.outliers.numbers)         float16 [n]
//   S = Reshape(ScatterElements(zeros, places, numbers), [in, out])
//   y = Add(MatMul(x, Q), MatMul(x, S))
//
// MODULE being the constant W's name without ".weight"; beside a Gemm alike. Places count the elements of [in, out] row by row; a
// gap is what leads from one to the next, of the first from 0. Where one passes 65,535, numbers that are 0 stand between. Every
// engine of ONNX has these operators (from set 11 on); Crumb's own multiplies by what is not 0 alone, to the same bits as by the
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
  std::vector<std::int64_t> places;  ///< in rows * columns, ascending
  std::vector<float> numbers;
};

/// The numbers as they are kept: rounded to float16.
std::vector<float> as_kept(const std::vector<float>& numbers);

/// Beside each of these products, which have one matrix; no training moves them. Preconditions: places are ascending and of [in, out], numbers those that
/// as_kept() gives; the graph has no such numbers beside them, and imports operator set 11 or later. Products and places of
/// nodes stay; the graph is not sorted afterwards.
std::vector<Branch> add_sparse(Graph& graph, const std::vector<LinearProduct>& products,
                               const SparseMatrix& matrix);

/// Whether it has such numbers beside it.
bool has_sparse(const Graph& graph, const LinearProduct& product);

/// The matrix that a value is by those nodes, also where Casts of its constants were taken out. `nodes` gets those that make it alone.
std::optional<SparseMatrix> sparse_matrix(const Graph& graph, const Links& links, const std::string& value,
                                          std::set<std::size_t>* nodes = nullptr);

/// Those beside a product, if there are any.
std::optional<SparseMatrix> sparse_beside(const Graph& graph, const Links& links,
                                          const LinearProduct& product);

/// The nodes that make such matrices of products: folded they would be as large as any.
std::set<std::size_t> sparse_makers(const Graph& graph);

}  // namespace crumb::graph
