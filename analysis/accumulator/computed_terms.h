// Products of two computed operands: how many terms a result has, and what each can be. Internal to
// analysis/accumulator.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "analysis/accumulator/product_operators.h"
#include "quant/accumulator/accumulator.h"

namespace crumb::analysis {

/// Terms of one result: those of the result that has most. A Failure where the shapes leave them open, and where a result
/// is no sum over products of two elements. The graph's shapes are inferred.
Result<std::int64_t> count_terms(const graph::Graph& graph, const graph::Node& node,
                                 const graph::ProductRule& rule);

/// Columns of a matrix product, output channels of a convolution; nothing for others and where they are open.
std::optional<std::int64_t> count_channels(const graph::Graph& graph, const graph::Node& node,
                                           const graph::ProductRule& rule);

/// Every product of an element of one of a's ranges and one of b's, and 0; `same`: both are one element. Nothing where
/// one does not fit int64_t.
std::optional<IntegerRange> term_of(std::span<const IntegerRange> a, std::span<const IntegerRange> b,
                                    bool same);

}  // namespace crumb::analysis
