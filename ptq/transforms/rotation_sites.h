// Where a network can be rotated without changing what it computes: values whose channels may be multiplied
// by an orthogonal matrix, because all that makes them and all that takes them is linear, or a norm that
// orthogonal matrices pass.
//
// A site's constants, those that make its value and those that take it, change alike: with R of the site's
// size, each slice v along the axis (a row of outputs, a column of inputs) becomes v R, block by block.
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
              blocks = 1;  ///< along the axis: where they begin, and how many of the site's size there are
  bool operator==(const RotatedConstant&) const = default;
};

/// A norm between what is rotated and what takes it, whose gain is no ones.
struct NormInside {
  std::size_t node = 0;
  std::string gain;
};

struct RotationSite {
  std::string value;     ///< one of its values, for messages
  std::size_t size = 0;  ///< of R
  std::vector<RotatedConstant> constants;
  std::vector<NormInside> norms;  ///< a product R^T diag(gain) R has to come behind each
};

/// Sites that there are, and of others why there is none ("value 'x' comes from node 'n' (Softmax)").
struct RotationSites {
  std::vector<RotationSite> sites;
  std::vector<std::string> refusals;
};

/// Residual streams (QuaRot's R1): from rows of embeddings and outputs of matrices over sums to
/// RMSNormalizations, and what takes their outputs; tables that both make and take it are rotated once.
/// Precondition: shapes are inferred, gains folded where they can be.
RotationSites residual_streams(const graph::Graph& graph);

/// Heads (R2): from the matrix that makes an Attention's values to those that take what it gives; every head
/// turns alike, and so do values that are kept for later runs.
RotationSites attention_heads(const graph::Graph& graph);

/// Values that nothing but products with constant matrices takes, of a multiple of `block` channels, and are
/// no part of the others: those would be turned by a product with R before. `constants` are what takes them.
std::vector<RotationSite> values_before_products(const graph::Graph& graph, std::size_t block,
                                                 const std::vector<RotationSite>& others);

}  // namespace crumb::ptq
