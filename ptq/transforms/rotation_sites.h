// Where a network can be rotated without changing what it computes: values whose channels may be multiplied
// by an orthogonal matrix, because everything that produces or takes them is linear, or a norm that commutes
// with orthogonal matrices.
//
// A site's constants, those that produce its value and those that take it, change in the same way: with R of
// the site's size, each slice v along the axis (a row of outputs, a column of inputs) becomes v R, block by
// block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::ptq {

struct RotatedConstant {
  std::string name;
  std::size_t axis = 0;
  std::size_t first = 0,
              blocks = 1;  ///< along the axis: the first index, and the number of blocks of the size
  bool operator==(const RotatedConstant&) const = default;
};

/// A norm inside a site whose gain is not ones.
struct NormInside {
  std::size_t node = 0;
  std::string gain;
};

struct RotationSite {
  std::string value;     ///< one of its values, for messages
  std::size_t size = 0;  ///< rows and columns of R
  std::vector<RotatedConstant> constants;
  std::vector<NormInside> norms;  ///< a product R^T diag(gain) R must follow each
};

/// The sites, and why other values are none ("value 'x' comes from node 'n' (Softmax)").
struct RotationSites {
  std::vector<RotationSite> sites;
  std::vector<std::string> refusals;
};

/// Returns residual streams (QuaRot's R1): from rows of embeddings and outputs of matrices through sums to
/// RMSNormalizations, and the consumers of their outputs. A table that both produces and takes the stream is
/// rotated once. Preconditions: shapes are inferred, gains folded where possible.
RotationSites residual_streams(const graph::Graph& graph);

/// Returns heads (R2): from the matrix that produces an Attention's values to those that take its output.
/// Every head is rotated by the same matrix, and so are cached values.
RotationSites attention_heads(const graph::Graph& graph);

/// Returns values that only products with constant matrices take, with a multiple of `block` channels, and
/// not part of `others`: these need a product with R before them. `constants` are the matrices.
std::vector<RotationSite> values_before_products(const graph::Graph& graph, std::size_t block,
                                                 const std::vector<RotationSite>& others);

}  // namespace crumb::ptq
