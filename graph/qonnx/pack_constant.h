// A constant's integers, scales and zero points, one of each for every element, as a tensor of codes. Internal to
// graph/qonnx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "formats/number/number_format.h"
#include "graph/quantized_constant.h"

namespace crumb::graph {

/// What a quantizer makes of a constant, row-major in `shape`. `scale` and `zero` hold one number for each element, or
/// one for all.
struct QuantizedElements {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  std::vector<float>
      integers;  ///< before the zero point is taken off; empty for minifloats, whose values tell
  std::vector<float> scale, zero;
};

/// The codes of a grid: integers (half-integers are integers with the zero point -0.5), binary or a minifloat.
struct CodeFormat {
  const NumberFormat* number = nullptr;
  Range range = Range::kFull;
};

/// The tensor that decodes to exactly these values from exactly these integers, scales and zero points (a zero may lose
/// its sign); nothing where there is none: scales that are not positive or not finite, zero points of a grid that has
/// none, values that are no numbers.
///
/// Which elements share a scale is seen from the scales: one of all, of channels, of groups or of blocks, whichever
/// takes the fewest numbers; `axes`: what the operator takes the constant for. A stack is one where scales differ from
/// matrix to matrix. Scales of groups and blocks are kept in float16 or bfloat16 where that is exact.
std::optional<QuantizedConstant> pack_constant(const QuantizedElements& elements, const CodeFormat& format,
                                               MatrixAxes axes);

}  // namespace crumb::graph
