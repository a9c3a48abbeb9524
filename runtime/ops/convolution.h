// The kernel of Conv, for nodes that are computed with it (fuse/followed_convolution.h).
#pragma once

#include "runtime/exact/term_products.h"
#include "runtime/operator.h"

namespace crumb::runtime {

/// Whether the node is a Conv of ONNX.
bool is_convolution(const graph::Node& node);

/// Makes output 0 of a call of a Conv node, and `then` of each element; its slopes are those of output
/// channels.
void convolve_then(Call& call, const exact::TermsThen& then);

}  // namespace crumb::runtime
