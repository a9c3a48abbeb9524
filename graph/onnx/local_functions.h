// The functions that a model defines itself. Internal to graph/onnx: this header shows protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>

namespace crumb::graph {

/// Puts bodies in place of calls. Throws Error where a function calls itself, by whatever way; where calls are nested
/// more than 64 deep; and where the graph would grow beyond 4 MB and 16 times the file (functions that each call the
/// next twice double with every one of them); and where a body takes or gives a value that nothing in it makes, which
/// the library does not look at.
void inline_local_functions(onnx::ModelProto& model, std::size_t file_bytes);

}  // namespace crumb::graph
