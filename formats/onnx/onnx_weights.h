// The weights inside an ONNX file (.onnx): its initializers, read in place.
//
// A walk over protobuf's wire format (tag = field * 8 + type; types 0 varint, 1 eight bytes, 2 length and
// bytes, 5 four bytes), and not the ONNX library, which would copy a file of 2 GB into memory and must not
// share an include path with LibTorch. The fields that matter (onnx.proto3):
//   ModelProto   7 graph
//   GraphProto   5 initializer   15 sparse_initializer (refused by name)   1 node (for Constant nodes and
//                subgraphs: attributes of type tensor and graph)
//   TensorProto  1 dims   2 data_type   4 float_data   5 int32_data   7 int64_data   8 name   9 raw_data
//                10 double_data   11 uint64_data   13 external_data (location, offset, length)   14 data_location
// Scalars may be packed (one length-delimited run) or repeated, in any order, as protobuf allows.
#pragma once

#include <cstddef>
#include <span>

#include "formats/checkpoint/stored_tensor.h"
#include "formats/error.h"

namespace crumb {

/// Whether the bytes are a ModelProto with a graph, told from its first fields (ONNX has no magic).
bool looks_like_onnx(std::span<const std::byte> file);

/// Lists the initializers of the main graph. Tensors of types that are none of ours (strings, int4, uint4,
/// complex128) are skipped and listed. External data: StoredTensor::file names it; its extent is checked
/// when it is opened. A Failure on damage, on names that occur twice, and on sizes that do not fit shapes.
Result<TensorListing> list_onnx_weights(std::span<const std::byte> file);

}  // namespace crumb
