// Converts a Graph to a ModelProto. Internal to graph/onnx: this header includes protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>

#include "graph/graph.h"

namespace crumb::graph {

/// most_elements: larger initializers become inputs of the same type and shape, enough for inference without
/// copying weights; -1: none. Branches of If nodes (if_nodes.h) are written, and bodies of Loop and Scan
/// (loop_bodies.h). Throws Error where a node has another Opaque attribute. `keep_opaque` leaves these and
/// loops' bodies out.
struct ToProtoOptions {
  std::int64_t most_elements = -1;
  bool keep_opaque = false;
  bool without_initializers = false;  ///< the caller writes them one by one
  bool states_initializers = false;   ///< lists their types and shapes among those of values, too
  bool quantized_as_inputs = false;   ///< false: constants that are kept as codes are an Error
};
onnx::ModelProto to_proto(const Graph& graph, const ToProtoOptions& options = {});

onnx::TensorProto to_proto(const std::string& name, const Tensor& tensor);

}  // namespace crumb::graph
