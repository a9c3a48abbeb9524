// Reads ONNX files of any operator set, float or quantized, with external data.
//
// Accepts what real files have: initializers that are also listed as inputs, operator sets that are not
// imported, older names of QONNX's domains (onnx.brevitas, finn.custom_op.general, finn), nodes out of order,
// nodes without names. Calls of functions that the model defines are replaced by the functions' bodies.
//
// Branches of If become nodes among the others (graph/choose.h). What constants and stated shapes decide of
// them, and of Loop and Scan, is decided afterwards (graph/control/decide.h).
//
// Does not judge operators: another node with a subgraph stays a node, with an Opaque attribute, and the code
// that executes or writes the graph says what it cannot do.
//
// Errors, each naming file, node or value: damage; cycles, values without a producer or with two; shapes that
// overflow; data that do not fit them; external data outside the model's folder
// (formats/onnx/external_data.h); models of 2 GB and more without external data; sparse initializers,
// strings, sequences, optionals and training graphs.
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

/// Reads a file. Throws Error. Large constants, also external data, stay in their files until their numbers
/// are requested (Tensor::is_unread): the files must not change while the graph exists.
Graph read_onnx(const std::filesystem::path& path);

/// Reads a file that is written and not yet renamed: `bytes` will become `path`, and `data` will become
/// `<path>.data`. Without `data`, `path` has no such file.
Graph read_onnx_at(const std::filesystem::path& bytes, const std::filesystem::path& path,
                   const std::optional<std::filesystem::path>& data);

/// Returns the name of the file, next to a model of 2 GB or more, with its large initializers.
inline std::string data_file_of(const std::filesystem::path& path) {
  return path.filename().string() + ".data";
}

/// `folder` is where external data are stored (formats/onnx/external_data.h); none are read where it is
/// empty.
Result<Graph> parse_onnx(std::span<const std::byte> bytes, const std::filesystem::path& folder);

/// Reads a single TensorProto, as ONNX stores test data (.pb).
Result<NamedTensor> parse_onnx_tensor_file(std::span<const std::byte> bytes);

}  // namespace crumb::graph
