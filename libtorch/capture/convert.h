// Converts recorded operators to a graph.
#pragma once

#include "libtorch/capture/capture.h"
#include "libtorch/capture/recording.h"

namespace crumb::libtorch {

/// Throws one Error that names every operator that cannot be converted.
graph::Graph convert(const Recording& recording, Number batch, const std::vector<std::int64_t>& batch_axes,
                     const std::vector<NamedState>& states, const CaptureOptions& options);

/// capture() for a function that is no torch::nn::Module; the tensors are its parameters and buffers.
graph::Graph capture_function(const Forward& forward, const Tensors& example,
                              const std::vector<NamedState>& states, const CaptureOptions& options);

}  // namespace crumb::libtorch
