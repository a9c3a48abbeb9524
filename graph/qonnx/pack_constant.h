// Packs a constant, given by each element's integer, scale and zero point, as a tensor of codes. Internal to
// graph/qonnx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "formats/number/number_format.h"
#include "graph/quantized_constant.h"

namespace crumb::graph {

/// What a quantizer returns for a constant, row-major in `shape`. `scale` and `zero` have one number for each
/// element, or one for all.
struct QuantizedElements {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  std::vector<float>
      integers;  ///< before the zero point is subtracted; empty for minifloats, whose values suffice
  std::vector<float> scale, zero;
};

/// The grid of the codes: integers (half-integers are integers with the zero point -0.5), binary or a
/// minifloat.
struct CodeFormat {
  const NumberFormat* number = nullptr;
  Range range = Range::kFull;
};

/// Returns the tensor that decodes to exactly these values from exactly these integers, scales and zero
/// points (a zero may lose its sign). Nothing where there is none: for scales that are not positive or not
/// finite, zero points of a grid that has none, and NaN values.
///
/// The scales tell which elements share one: all, or those of channels, groups or blocks, whichever needs the
/// fewest numbers. `axes` says how the operator takes the constant; it is a stack if scales differ between
/// matrices. Scales of groups and blocks are stored as float16 or bfloat16 where that is exact.
std::optional<QuantizedConstant> pack_constant(const QuantizedElements& elements, const CodeFormat& format,
                                               MatrixAxes axes);

}  // namespace crumb::graph
