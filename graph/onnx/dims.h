// Sizes as ONNX files store them. Internal to graph/onnx.
#pragma once

#include <onnx/onnx_pb.h>

#include "graph/onnx/wire/named_dim.h"

namespace crumb::graph {

/// Returns a number, a name, or nothing; nothing for a negative number, too.
inline Dim dim_of(const onnx::TensorShapeProto::Dimension& dim) {
  if (dim.has_dim_value() && dim.dim_value() >= 0) return Dim(dim.dim_value());
  return dim.has_dim_param() ? named_dim(dim.dim_param()) : Dim();
}

}  // namespace crumb::graph
