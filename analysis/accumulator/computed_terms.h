// Products of two computed operands: the number of terms of a result, and the range of each. Internal to
// analysis/accumulator.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "analysis/accumulator/product_operators.h"
#include "quant/accumulator/accumulator.h"

namespace crumb::analysis {

/// The number of terms of the result that has most. A Failure where the shapes leave it open, and where a
/// result is not a sum over products of two elements. The graph's shapes are inferred.
Result<std::int64_t> count_terms(const graph::Graph& graph, const graph::Node& node,
                                 const graph::ProductRule& rule);

/// The columns of a matrix product, or the output channels of a convolution; nothing for other products and
/// where they are open.
std::optional<std::int64_t> count_channels(const graph::Graph& graph, const graph::Node& node,
                                           const graph::ProductRule& rule);

/// The range of 0 and of every product of an element of one of a's ranges and one of b's; `same`: both are
/// one element. Nothing where a bound does not fit int64_t.
std::optional<IntegerRange> term_of(std::span<const IntegerRange> a, std::span<const IntegerRange> b,
                                    bool same);

}  // namespace crumb::analysis
