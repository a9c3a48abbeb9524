// The operators that lowering puts into a graph: on codes and integer sums. No file has them.
//
//   Codes    x -> codes          attributes scale, zero, low, high, bipolar, type: a UniformQuantizer
//                                (lower/chain.h), in float32 as QONNX's Quant computes; NaN counts as the
//                                least code
//   Quantized x -> floats        the same attributes but type: what Values gives of those codes, but that NaN
//                                stays NaN; where nothing takes the codes
//   Values   codes -> floats     scale, zero: (code - zero) * scale
//   Conv     codes, weights, factors, shifts, thresholds, lines -> floats or codes
//   MatMul   codes [..., terms], weights, factors, shifts, thresholds, lines -> [..., outputs]
//   Phases   [N, groups * phases * outputs, windows...] -> [N, groups * outputs, windows * strides less what
//            is cut...]: attributes group, strides and cut, of each axis before and behind. Phase [r, ...]
//            has the elements [i * stride + r, ...]; of codes or floats
//   LSTM, GRU, RNN  the standard's, but that inputs 0 and 1 are the products of its X with the W of each
//            direction, [time, batch, gates] or [batch, time, gates] as `layout` has X; R of one direction
//            may be a matrix
//   Products codes [..., rows, terms], codes [..., terms, columns], factor -> floats [..., rows, columns];
//            axes before the last two broadcast
//
// Weights of a product are int8 where they and the codes fit bytes (integer/byte_products.h), else int16:
//
//   Conv     int8 [outputs, terms, filled up with zeros to a multiple of 4], weight_shape [outputs, inputs /
//            group, kernel...]; int16 of that shape
//   MatMul   int8 in vectors, with attributes outputs and terms; int16 [outputs, terms]
//
// `zero` is the zero point of the codes, `least` and `most` bound them; sums of (code - zero) * weight are
// exact in 32 bits. With `type` it gives codes of that type: `low` and the number of thresholds that the sum
// reaches, or -1 and 1 where `bipolar`. Thresholds are int32 [outputs, steps]; lines, float64 [pieces, 5,
// outputs], give that number, added up over the pieces, for channels whose magic numbers are not 0
// (integer/lines.h), and where they do for all, there are no thresholds. Without `type` it gives
// float32(sum * factor + shift) in float64, factors and shifts one for each output. `registers` says how wide
// the registers are that sums are added up in, and why, for people. Products' second codes are bytes with a
// sign when their zero point, `other_zero`, is taken off; `factor` is float64 [1], and an element is
// float32(sum * factor), the sum exact.
#pragma once

#include <string_view>

namespace crumb::runtime {

inline constexpr std::string_view kRuntimeDomain = "crumb.runtime";

}  // namespace crumb::runtime
