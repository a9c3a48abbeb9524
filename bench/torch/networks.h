// The networks of the shared QONNX files, written by hand with LibTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "graph/graph.h"

namespace crumb::bench {

using Network = std::function<at::Tensor(const at::Tensor& x)>;

/// The three-layer perceptrons TFC_* and the super-resolution networks espcn_*, float or quantized, with the file's
/// weights; empty for other graphs. quantizers: those of activations too.
Network write_network(const graph::Graph& graph, bool quantizers);

}  // namespace crumb::bench
