// The functions that a model defines. Internal to graph/onnx: this header includes protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>

namespace crumb::graph {

/// Replaces calls by the functions' bodies. Throws Error where a function calls itself, directly or through
/// others; where calls are nested more than 64 deep; where the graph would exceed both 4 MB and 16 times the
/// file (functions that each call the next twice double with every one of them); and where a body takes or
/// returns a value that nothing in it produces, which the library does not check.
void inline_local_functions(onnx::ModelProto& model, std::size_t file_bytes);

}  // namespace crumb::graph
