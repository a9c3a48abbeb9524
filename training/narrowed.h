// The baseline of the papers on accumulators (arXiv:2308.13504, arXiv:2401.10432): ordinary training with
// quantizers, weights and inputs narrowed until the worst case that their types allow fits the register.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/accumulator/check.h"
#include "graph/graph.h"
#include "training/sweep.h"

namespace crumb::training {

/// The register that a layer needs whatever its codes are: as many terms as it has, each the largest product
/// of a code that the weight's format has and an input of the layer's range. Nothing where the weight is no
/// format of whole numbers, or the range is not known.
///
/// Exact for the formats' own ranges (int4 is -7 to 7, uint4 0 to 15), so often a bit less than the papers'
/// form, which counts 2^(M-1) and 2^N: K (2^(M-1) - 1) (2^N - 1) <= 2^(P-1) - 1.
std::optional<int> bits_by_types(const graph::Graph& graph, const analysis::AccumulatorRow& row);

/// A point for each width of weights from 2 bits and of activations from 1 bit, up to the request's own, but
/// for that one itself; empty where these are no intM and uintN or intN. Seeds are left to the caller.
std::vector<SweepPoint> narrowed_points(const tasks::TrainRequest& base);

/// "W4A4" of the request's own widths; "" where they are none to narrow.
std::string widths_text(const tasks::TrainRequest& request);

/// For every register from `widest` down to `narrowest` bits: of the points with `widths`, those whose inner
/// layers all fit it by types in every run, and of these the one with the best mean score on the test set, as
/// the papers choose. Registers that no widths fit have none. `reports`: of the grid's points, in their
/// order.
std::vector<SweepValue> narrowed_values(const SweepGrid& grid, const std::vector<Json>& reports, int widest,
                                        int narrowest);

}  // namespace crumb::training
