// Conversion between element types.
#pragma once

#include "libtorch/execute/operator.h"
#include "libtorch/execute/small_floats.h"

namespace crumb::libtorch {

/// The same numbers in another type, as ONNX's Cast has it: integers wrap around, floats are truncated to
/// integers (from_real() says what becomes of those that do not fit) and rounded to floats. Throws Error for
/// complex numbers to other types.
TypedTensor cast(const TypedTensor& value, graph::ElementType to, SmallFloatRounding rounding = {});

/// The element type that an attribute names by ONNX's number.
graph::ElementType type_attribute(const Call& call, const char* name, graph::ElementType otherwise);

}  // namespace crumb::libtorch
