// TensorProto to Tensor. Internal to graph/onnx: this header shows protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include "formats/onnx/external_data.h"
#include "graph/tensor.h"

namespace crumb::graph {

/// Throws Error, which names the tensor.
Tensor tensor_from(const onnx::TensorProto& proto, const OnnxDataFolder& folder);

}  // namespace crumb::graph
