// Shapes of pools that round up and of resized images, as they are executed.
#pragma once

#include <onnx/defs/shape_inference.h>

namespace crumb::graph {

/// What ONNX's inference of MaxPool, AveragePool and LpPool leaves behind, put right where ceil_mode is set: before operator
/// set 22 (AveragePool, MaxPool) and in all of LpPool's it counts a last window that would start in the padding behind the
/// input, which nobody makes. Other nodes stay as they are.
void count_windows_that_start_inside(onnx::InferenceContext& context);

/// Of a Resize or Upsample by constant scales, which are input `scales`: sizes are counted in single precision, as tools that
/// execute it count them, and not in double.
void count_resized_elements(onnx::InferenceContext& context, std::size_t scales);

}  // namespace crumb::graph
