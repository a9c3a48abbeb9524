// ONNX files in: any operator set, float or quantized, external data included.
//
// What files in the wild hold is survived: initializers that are also listed as inputs, operator sets that are
// not imported, older names of QONNX's domains (onnx.brevitas, finn.custom_op.general, finn), nodes out of
// order, nodes without names. Functions that the model defines are put in place of their calls.
//
// Operators are not judged here: what has a subgraph (If, Loop, Scan) keeps its place as a node whose attribute
// is an Opaque, and whoever executes or writes the graph says what it cannot do.
//
// Errors, each naming file, node or value: damage; cycles, values without a producer or with two; shapes that
// overflow; data that do not fit them; external data outside the model's folder (formats/onnx/external_data.h); models of 2 GB
// and more without external data; sparse initializers, strings, sequences, optionals and training graphs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/onnx/wire/read_model.h"

namespace crumb::graph {

/// Throws Error. Large constants, external data among them, stay in their files until somebody wants their numbers
/// (Tensor::is_unread): the files must not change as long as the graph is there.
Graph read_onnx(const std::filesystem::path& path);

/// The same of a file that is written and not yet renamed: `bytes` are to be `path`, and `data` are to be
/// `<path>.data`. Without data, `path` has none of that name.
Graph read_onnx_at(const std::filesystem::path& bytes, const std::filesystem::path& path,
                   const std::optional<std::filesystem::path>& data);

/// Where a file of 2 GB and more has its large initializers: beside it.
inline std::string data_file_of(const std::filesystem::path& path) {
  return path.filename().string() + ".data";
}

/// `folder`: where external data lie (formats/onnx/external_data.h); none are taken where it is empty.
Result<Graph> parse_onnx(std::span<const std::byte> bytes, const std::filesystem::path& folder);

/// A TensorProto by itself, as ONNX's test data are kept (.pb).
Result<NamedTensor> parse_onnx_tensor_file(std::span<const std::byte> bytes);

}  // namespace crumb::graph
