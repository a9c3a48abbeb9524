// The operators that lowering puts into a graph: on codes and integer sums. No file has them.
//
//   Codes    x -> codes          attributes scale, zero, low, high, bipolar, type: Grid (lower/chain.h), in float32 as QONNX's
//                                Quant computes; NaN counts as the least code
//   Values   codes -> floats     scale, zero: (code - zero) * scale
//   Conv     codes, weights [outputs, inputs / group, kernel...] of int16, factors, shifts, thresholds -> floats or codes
//   MatMul   codes [..., terms], weights [outputs, terms] of int16, factors, shifts, thresholds -> [..., outputs]
//
// Of a product: `zero` is the zero point of its codes; sums of (code - zero) * weight are exact in 32 bits. With thresholds
// [outputs, steps] of int32 it gives codes of `type` by their number that the sum reaches, `low` more, or -1 and 1 where
// `bipolar`. Without them it gives float32(sum * factor + shift) in float64, factors and shifts one for each output.
#pragma once

#include <string_view>

namespace crumb::runtime {

inline constexpr std::string_view kRuntimeDomain = "crumb.runtime";

}  // namespace crumb::runtime
