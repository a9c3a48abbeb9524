// The weights inside an ONNX file (.onnx): its initializers, read in place.
//
// A walk over protobuf's wire format (wire.h), and not the ONNX library, which would copy a file of 2 GB into
// memory and must not share an include path with LibTorch. The fields that matter (onnx.proto3):
//   ModelProto     7 graph   20 training_info   25 functions
//   GraphProto     5 initializer   15 sparse_initializer   1 node
//   NodeProto      2 output   4 op_type   5 attribute, of which 5 t, 6 g, 11 graphs, 22 sparse_tensor
//   FunctionProto  7 node
//   TensorProto    tensor_proto.h
// Data of weights are never touched, so that a listing takes no memory for them: of integers kept as varints
// the number is checked by whoever reads them.
#pragma once

#include <cstddef>
#include <span>

#include "base/error.h"
#include "formats/stored_tensor.h"

namespace crumb {

/// Whether the bytes are a ModelProto with a graph (ONNX has no magic): known fields of the right wire types
/// up to the graph, which must be whole and hold nothing but fields that a graph has.
bool looks_like_onnx(std::span<const std::byte> file);

/// Lists the initializers of the main graph. Skipped and listed: those of types that are none of ours
/// (strings, integers below eight bits, complex128, an odd number of float4e2m1), sparse ones, graphs for
/// training, and what has two axes or more but is no initializer of the main graph: tensors of Constant nodes
/// and initializers of subgraphs. External data: StoredTensor::file names the file, a plain path inside the
/// model's folder; its extent is checked when it is opened. A Failure
/// on damage, on initializers without a name or with one that occurs twice, and on data that do not fit types
/// and shapes.
Result<TensorListing> list_onnx_weights(std::span<const std::byte> file);

}  // namespace crumb
