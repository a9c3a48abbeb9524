// Reads a TensorProto of an ONNX file as a Tensor.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/files/input_file.h"
#include "formats/onnx/external_data.h"
#include "formats/onnx/tensor_proto.h"
#include "graph/tensor.h"

namespace crumb::graph {

/// `message`: a TensorProto within the file. `source`: the same file, in which large data stay until
/// requested; null: they are copied now. External data stay in their files. Throws Error, which names the
/// tensor.
Tensor tensor_in(std::span<const std::byte> file, const WireExtent& message, const OnnxTensor& proto,
                 const OnnxDataFolder& folder, const std::shared_ptr<const InputFile>& source = nullptr);

}  // namespace crumb::graph
