// Shapes of pools that round up, as they are executed.
#pragma once

#include <onnx/defs/shape_inference.h>

namespace crumb::graph {

/// What ONNX's inference of MaxPool, AveragePool and LpPool leaves behind, put right where ceil_mode is set: before operator
/// set 22 (AveragePool, MaxPool) and in all of LpPool's it counts a last window that would start in the padding behind the
/// input, which nobody makes. Other nodes stay as they are.
void count_windows_that_start_inside(onnx::InferenceContext& context);

}  // namespace crumb::graph
