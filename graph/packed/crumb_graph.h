// Graphs in the packed file (docs/crumb_file.md, "Graphs").
//
// The structure is a file `graph.onnx` inside, a valid ONNX model by itself. Constants that are kept as
// codes, and initializers of kLeastTensor bytes and more, are tensors of the packed file, and inputs of that
// model after the graph's own: with the dequantized tensors as inputs, by name, the model computes what the
// graph computes. A constant whose axes are not the tensor's has a Transpose behind its input, called
// "crumb.axes:<tensor>".
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/crumb_file/crumb_file.h"
#include "graph/graph.h"

namespace crumb::graph {

/// The header's `model`, and the entry of the structure's metadata with the number of the graph's own inputs.
inline constexpr std::string_view kCrumbGraphModel = "graph";
inline constexpr std::string_view kCrumbInputsKey = "crumb.inputs";
inline constexpr std::string_view kCrumbAxesPrefix = "crumb.axes:";

/// The least size, in bytes, of an initializer that becomes a tensor of the packed file.
inline constexpr std::uint64_t kLeastTensor = 1024;

struct CrumbGraphOptions {
  int zstd_level = 0;                     ///< 0: no compression; at most kMostZstdLevel
  CodeLayout layout = CodeLayout::kRows;  ///< tiles apply to matrices of at least kTileRows rows
  bool reads_back = false;                ///< check what was written before it gets its name
  /// Store float weights, NAME.weight and NAME.bias, as a checkpoint does: as tensors of any size, matrices
  /// of linear layers as [out, in]. For networks of checkpoints, from which other tools' files are made
  /// again.
  bool as_checkpoint = false;
  std::map<std::string, std::string>
      files;  ///< contents by path of other files to store, such as a tokenizer
};

/// Returns the graph with its large constants as inputs after its own, as graph.onnx has it. Of constants
/// kept as codes it reads only the shapes.
Graph structure_of(const Graph& graph);

/// Writes a packed file, in the latest operator set that a node has. The same graph gives the same bytes.
/// Throws Error where the graph is not sound, cannot be written in that operator set (passes/opset.h), or has
/// a node with an Opaque attribute, which ONNX cannot express, where the structure alone takes 2 GB,
/// where the file cannot be written, and where it reads back as another graph.
void write_crumb_graph(const Graph& graph, const std::filesystem::path& path,
                       const CrumbGraphOptions& options = {});

/// Whether a packed file claims to hold a graph, and whether it holds nothing else: a checkpoint's file may
/// have one, too.
bool holds_graph(const CrumbHeader& header);
bool holds_only_graph(const CrumbHeader& header);

/// Returns the graph of an opened packed file, as it was written. Copies the codes out of the file and checks
/// them. A Failure says which tensor or node is wrong, without the file's name.
Result<Graph> graph_of(const CrumbFile& file);

/// The same, with the codes left in the file: each tensor is checked when it is first used, and the graph
/// keeps the file open.
Result<Graph> graph_on(const std::shared_ptr<const CrumbFile>& file);

/// Reads the graph of a packed file. Throws Error, which names the file.
Graph read_crumb_graph(const std::filesystem::path& path);

/// Whether a file begins like a packed file.
bool is_crumb_file(const std::filesystem::path& path);

}  // namespace crumb::graph
