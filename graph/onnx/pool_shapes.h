// Shapes of pools that round up and of resized images, as engines execute them.
#pragma once

#include <onnx/defs/shape_inference.h>

namespace crumb::graph {

/// Corrects the shape that ONNX infers for MaxPool, AveragePool and LpPool with ceil_mode. Before operator
/// set 22 (AveragePool, MaxPool) and in every LpPool it counts a last window that would start in the padding
/// behind the input, which no engine computes. Other nodes stay as they are.
void count_windows_that_start_inside(onnx::InferenceContext& context);

/// Corrects the shape of a Resize or Upsample by constant scales, which are input `scales`: computes sizes in
/// single precision, as the engines do, not in double.
void count_resized_elements(onnx::InferenceContext& context, std::size_t scales);

}  // namespace crumb::graph
