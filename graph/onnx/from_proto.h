// ModelProto to Graph. Internal to graph/onnx: this header shows protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include "graph/graph.h"
#include "graph/onnx/tensor_in.h"

namespace crumb::graph {

/// Throws Error (read.h). The model's own functions must be gone.
Graph from_proto(const onnx::ModelProto& model, const OnnxDataFolder& folder);

/// Sizes that are numbers or names; others are open.
Shape shape_in(const onnx::TensorShapeProto& proto);

}  // namespace crumb::graph
