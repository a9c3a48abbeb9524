// Constant matrices with several uses in a network: embeddings that are also the head, and layers that share
// their weights.
//
// No sample reaches all uses of a matrix before its first use, so its codes are chosen first, on the float
// network's inputs. They minimize the sum of each use's squared error over its squares.
//   - A product's outputs: with H the sum of x x^T over samples, tr(E H E^T) over tr(W H W^T), E being W's
//     error.
//   - Look-ups of its rows or columns (Gather), on which samples tell little, as they contain few rows: |E|^2
//     over |W|^2. They count a quarter, which of the weights 1/16, 1/4, 1, 4 and 16 gave the best SmolLM2
//     (kLookUps).
// That is the error of one layer with the moments sum of H / tr(W H W^T), and I / (4 |W|^2).
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "ptq/samples/layer_moments.h"
#include "ptq/stages.h"

namespace crumb::ptq {

constexpr double kLookUps = 0.25;

struct SharedMatrix {
  std::vector<SampledLayer> products;  ///< at least one; all take the constant in the same way
  bool is_looked_up = false;

  std::size_t constant() const { return products.front().constant; }  ///< index in the plan
};

/// Returns the plan's constants that become codes, have none yet, and are used by products and look-ups
/// alone.
std::vector<SharedMatrix> shared_matrices(const graph::Graph& graph, const graph::QuantPlan& plan);

/// Returns their moments in the float network, in that order, running a part of the network at a time.
/// `layers`: where else the network may be split. `even` as for StationMoments. Preconditions: the setting
/// has samples and an engine.
std::vector<LayerMoments> moments_of(const std::vector<SharedMatrix>& matrices, const Setting& setting,
                                     const std::vector<SampledLayer>& layers, bool even);

}  // namespace crumb::ptq
