// TensorProto to Tensor. Internal to models/graph/onnx: this header shows protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>

#include "models/graph/tensor.h"

namespace crumb::graph {

/// Where a model's external data may lie: inside the folder of the file, or of what the file is a link to.
struct DataFolder {
  std::filesystem::path folder;
  std::filesystem::path real_folder;  ///< of the file that the model's path leads to
};

/// Throws Error, which names the tensor.
Tensor tensor_from(const onnx::TensorProto& proto, const DataFolder& folder);

}  // namespace crumb::graph
