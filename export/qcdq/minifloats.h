// FloatQuant's formats that ONNX has as types. Internal to export/qcdq.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/qonnx/quant_arithmetic.h"
#include "graph/tensor.h"

namespace crumb::exporting {

struct Minifloat {
  graph::ElementType type;
  graph::FloatFormat format;  ///< saturating
  std::int64_t opset;         ///< of ONNX, the first that has the type
};

/// Null for types that are none.
const Minifloat* find_minifloat(graph::ElementType type);

/// The type whose numbers are exactly those of the format; null where ONNX has none.
const Minifloat* find_minifloat(const graph::FloatFormat& format);

/// A constant of the type; nothing where a number is none of the type's.
std::optional<graph::Tensor> encoded(graph::ElementType type, const std::vector<std::int64_t>& shape,
                                     std::span<const float> values);

}  // namespace crumb::exporting
