// Sizes as ONNX files have them. Internal to graph/onnx.
#pragma once

#include <onnx/onnx_pb.h>

#include "graph/graph.h"

namespace crumb::graph {

/// A number, a name, or nothing: of a negative number, and of "?", which some exporters write for every size they do not know.
inline Dim dim_of(const onnx::TensorShapeProto::Dimension& dim) {
  if (dim.has_dim_value() && dim.dim_value() >= 0) return Dim(dim.dim_value());
  return dim.has_dim_param() && dim.dim_param() != "?" ? Dim(dim.dim_param()) : Dim();
}

}  // namespace crumb::graph
