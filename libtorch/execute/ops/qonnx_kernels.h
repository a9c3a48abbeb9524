// QONNX's operators, each as the kernel of its row.
#pragma once

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

// qonnx.cpp: the quantizers. Bit for bit what qonnx 1.0.0 computes; rounding passes gradients, clamping stops
// them, and scales and zero points have theirs.
Outputs int_quant(const Call& call);
Outputs bipolar_quant(const Call& call);
Outputs trunc_quant(const Call& call);
// float_quant.cpp
Outputs float_quant(const Call& call);
// qonnx_layers.cpp: what stands for layers
Outputs multi_threshold(const Call& call);
Outputs xnor_popcount_matmul(const Call& call);
Outputs im2col(const Call& call);
Outputs quant_avg_pool_2d(const Call& call);
// channels_last.cpp
Outputs max_pool_nhwc(const Call& call);

}  // namespace crumb::libtorch
