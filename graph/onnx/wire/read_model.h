// Reads ONNX's ModelProto as a Graph from its bytes, without protobuf, so that the runtime need not link it.
// graph/onnx/read.h reads files, and says what is accepted and what is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/files/input_file.h"
#include "formats/onnx/external_data.h"
#include "formats/onnx/model.h"
#include "graph/graph.h"

namespace crumb::graph {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Throws Error where the model is damaged, defines functions, or where read.h says so.
Graph read_model(std::span<const std::byte> file, const OnnxDataFolder& folder);
/// `source`: the file with exactly these bytes, if there is one: large constants are read from it when
/// requested.
Graph read_model(std::span<const std::byte> file, const OnnxModel& model, const OnnxDataFolder& folder,
                 std::shared_ptr<const InputFile> source = nullptr);

/// Reads a single TensorProto, as ONNX stores test data (.pb). Throws Error.
NamedTensor read_tensor(std::span<const std::byte> file);

}  // namespace crumb::graph
