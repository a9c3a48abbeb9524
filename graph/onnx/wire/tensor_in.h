// A TensorProto of an ONNX file as a Tensor.
#pragma once

#include <cstddef>
#include <span>

#include "formats/onnx/external_data.h"
#include "formats/onnx/tensor_proto.h"
#include "graph/tensor.h"

namespace crumb::graph {

/// `message`: a TensorProto within the file. Throws Error, which names the tensor.
Tensor tensor_in(std::span<const std::byte> file, const WireExtent& message, const OnnxTensor& proto,
                 const OnnxDataFolder& folder);

}  // namespace crumb::graph
