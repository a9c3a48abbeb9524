// ONNX's ModelProto as a Graph, read off its bytes: no protobuf, so that the runtime need not link it. graph/onnx/read.h
// is what reads files, and says what is taken and what is refused.
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

/// Throws Error where the model is damaged, defines functions of its own, or as read.h says.
Graph read_model(std::span<const std::byte> file, const OnnxDataFolder& folder);
/// `source`: where the bytes lie, if they do so as they are: large constants are read from it when they are wanted.
Graph read_model(std::span<const std::byte> file, const OnnxModel& model, const OnnxDataFolder& folder,
                 std::shared_ptr<const InputFile> source = nullptr);

/// A TensorProto by itself, as ONNX's test data are kept (.pb). Throws Error.
NamedTensor read_tensor(std::span<const std::byte> file);

}  // namespace crumb::graph
