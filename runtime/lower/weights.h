// A constant weight as integers with one scale for each output channel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace crumb::runtime {

struct IntegerWeight {
  std::vector<std::int64_t> shape;     ///< the output channels first, then the others in their order
  std::vector<std::int16_t> integers;  ///< row-major
  std::vector<double> scales;          ///< value = integer * scale, one for each output channel

  std::size_t outputs() const { return static_cast<std::size_t>(shape[0]); }
  std::size_t terms() const { return integers.size() / std::max<std::size_t>(outputs(), 1); }
};

/// The weight of a packed constant of the graph, whose output channels are on `output_axis`. A Failure says
/// why it is no such weight.
Result<IntegerWeight> integer_weight(const graph::QuantizedConstant& constant, std::size_t output_axis);

/// (codes - zero) * scale, as DequantizeLinear computes it from constants. Scales and zero points are one for
/// all, or one for each index of the output axis.
Result<IntegerWeight> integer_weight(const graph::Tensor& codes, const graph::Tensor& scales,
                                     const graph::Tensor* zeros, std::size_t output_axis);

/// Appends the least and the largest sum of each output channel, and of some of its terms, over codes whose
/// levels (codes less their zero point) lie in [low, high] or are 0. False where one passes 32 bits.
bool bound_sums(const IntegerWeight& w, std::int64_t low, std::int64_t high, std::vector<std::int32_t>& least,
                std::vector<std::int32_t>& most);

}  // namespace crumb::runtime
