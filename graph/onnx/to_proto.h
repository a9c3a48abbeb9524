// Graph to ModelProto. Internal to graph/onnx: this header shows protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>

#include "graph/graph.h"

namespace crumb::graph {

/// With a limit, initializers of more elements than that become inputs of the same type and shape: enough for
/// inference, without copying weights. Throws Error where a node has an Opaque attribute, unless `keep_opaque`,
/// which leaves it out.
struct ToProtoOptions {
  std::int64_t most_elements = -1;
  bool keep_opaque = false;
  bool without_initializers = false;  ///< whoever writes them does so one by one
  bool states_initializers = false;   ///< their types and shapes stand among those of values, too
  bool quantized_as_inputs = false;   ///< else constants that are kept as codes are an Error
};
onnx::ModelProto to_proto(const Graph& graph, const ToProtoOptions& options = {});

onnx::TensorProto to_proto(const std::string& name, const Tensor& tensor);

}  // namespace crumb::graph
