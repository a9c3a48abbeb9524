// Constant matrices that several places of a network take: embeddings that are the head, too, and layers that share their weights.
//
// No place along the network has seen all of a matrix' uses before it is used, so its codes come first, by what the float
// network brings. What is to be small is the sum of each use's squared error over its squares.
//   - A product's outputs: with H the sum of x x^T over samples, tr(E H E^T) over tr(W H W^T), E being W's error.
//   - Look-ups of its rows or columns (Gather), which samples say little of, as most rows are in none: |E|^2 over |W|^2. They
//     count a quarter: of SmolLM2's weights of 1/16, 1/4, 1, 4 and 16 that made the best network (kLookUps).
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
  std::vector<SampledLayer> products;  ///< one or more, which take the same constant alike
  bool is_looked_up = false;

  std::size_t constant() const { return products.front().constant; }  ///< of the plan
};

/// Those of the plan's constants that become codes and have none yet, which nothing but products and look-ups takes.
std::vector<SharedMatrix> shared_matrices(const graph::Graph& graph, const graph::QuantPlan& plan);

/// Their moments in the float network, in that order, a part of the network at a time. `layers`: where else it may be cut.
/// `even` as StationMoments has it. Precondition: the setting has samples and an engine.
std::vector<LayerMoments> moments_of(const std::vector<SharedMatrix>& matrices, const Setting& setting,
                                     const std::vector<SampledLayer>& layers, bool even);

}  // namespace crumb::ptq
