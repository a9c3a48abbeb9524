// QONNX quantizers in ONNX's own words: QuantizeLinear -> Clip -> DequantizeLinear (QCDQ), which every
// runtime of ONNX takes.
//
// The forms, by what is quantized:
//   activation  QuantizeLinear -> Clip -> DequantizeLinear, Clip exactly on the quantizer's range, none where
//               that is all of the container. Widths up to 8 in int8 and uint8, from operator set 21 up to 16
//               in int16 and uint16 (there Clip stands between Casts to int32 and back: onnxruntime has none
//               of 16 bits).
//   constant    initializer of integers -> Clip -> DequantizeLinear: those that the quantizer makes by its
//               own rounding mode. Above 8 bits int32 (operator set 21, zero points: int16 and uint16).
//   1 bit       of a constant: -1 and 1 in int8 -> Clip [-1, 1] -> DequantizeLinear. A reader sees three
//               values there; the model's metadata `crumb.bipolar` say that it is two, and from_qcdq believes
//               them. Of an activation: Where(x >= 0, scale, -scale); for Quant of one bit x / scale >= 0.
//   FloatQuant  the same with float8 (operator set 19) and float4 (23), where the format is exactly ONNX's,
//               and saturates; an infinite input saturates too, where QONNX makes NaN of it.
//   groups      a scale for each group of a constant: blocked DequantizeLinear (operator set 21). Where the
//               quantizer's [G, g, N] is then reshaped to [G * g, N], the blocked form holds that matrix
//               itself.
// NaN, which has no integer, becomes what the runtime makes of it; a zero may lose its sign.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace crumb::exporting {

enum class Arithmetic : std::uint8_t {
  kNone,
  kWhereNeeded,  ///< what QuantizeLinear cannot say
  kAll,          ///< Quant and Trunc; FloatQuant has no such form
};

struct QcdqOptions {
  /// 13 or later. The result has the least operator set from this on that can say the other nodes.
  std::int64_t opset = 13;
  /// int4 and uint4 (operator set 21), int2 and uint2 (25) where the width is theirs and the range full,
  /// without Clip.
  bool native_types = false;
  /// Constants of up to 8 bits (16 from operator set 21) as floats before a QuantizeLinear of their own: what
  /// qonnx's converter reads without loss of the width.
  bool weights_as_float = false;
  /// Which quantizers of activations become float arithmetic (Div, Add, Clip, Round, Sub, Mul; one bit:
  /// Where): the same numbers in any runtime, but no quantizer any more to those who read the file.
  Arithmetic arithmetic = Arithmetic::kNone;
};

/// What the two formats do not say alike, by the quantizers' names.
struct QcdqReport {
  /// Zero points other than 0: Quant adds them before it rounds, QuantizeLinear afterwards. One step apart at
  /// exact ties where they are odd, and where x / scale + zero point is rounded to a tie.
  std::vector<std::string> ties;
  std::vector<std::string> arithmetic;  ///< written as float arithmetic
  std::vector<std::string>
      bipolar;  ///< one bit as -1 and 1 in int8: only the metadata tell it from three values
};

/// The graph with every quantizer of QONNX (Quant, IntQuant, BipolarQuant, FloatQuant, Trunc) written so;
/// sorted, shapes inferred. Throws one Error that names every quantizer that cannot be said, and why; and
/// every node of QONNX's other operators.
graph::Graph to_qcdq(graph::Graph graph, const QcdqOptions& options = {}, QcdqReport* report = nullptr);

/// The same; a Failure says what to_qcdq() throws for quantizers that cannot be said.
Result<graph::Graph> find_qcdq(graph::Graph graph, const QcdqOptions& options, QcdqReport& report);

/// The model metadata's key: a JSON object, name of a DequantizeLinear -> "BipolarQuant" or "Quant".
inline constexpr const char* kBipolarKey = "crumb.bipolar";

}  // namespace crumb::exporting
