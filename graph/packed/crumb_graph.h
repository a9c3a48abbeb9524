// Graphs in the packed file (docs/crumb_file.md, "Graphs").
//
// The structure is a file `graph.onnx` inside, a sound ONNX model by itself. Constants that are kept as codes and
// initializers of kLeastTensor bytes and more are tensors of the packed file, and inputs of that model behind the
// graph's own: whoever feeds it the tensors, dequantized, by their names, computes what the graph computes. A constant
// whose axes are not the tensor's has a Transpose behind its input, called "crumb.axes:<tensor>".
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

/// What the header says for `model`, and the entry of the structure's metadata that holds the number of
/// the graph's own inputs.
inline constexpr std::string_view kCrumbGraphModel = "graph";
inline constexpr std::string_view kCrumbInputsKey = "crumb.inputs";
inline constexpr std::string_view kCrumbAxesPrefix = "crumb.axes:";

/// Bytes of the smallest initializer that is a tensor of the packed file.
inline constexpr std::uint64_t kLeastTensor = 1024;

struct CrumbGraphOptions {
  int zstd_level = 0;                     ///< 0: nothing is compressed; at most kMostZstdLevel
  CodeLayout layout = CodeLayout::kRows;  ///< tiles: of what has at least kTileRows rows
  bool reads_back = false;                ///< before the file gets its name: it must hold the same graph
  /// Weights in floats, NAME.weight and NAME.bias, are tensors as a checkpoint has them: whatever their size, matrices of
  /// linear layers as [out, in]. For networks of checkpoints, which other tools' files are made of again.
  bool as_checkpoint = false;
  std::map<std::string, std::string>
      files;  ///< contents by path: what else the file takes along (a tokenizer)
};

/// The graph with its large constants as inputs behind its own, as graph.onnx has it; of constants kept as codes, only the
/// shapes are looked at.
Graph structure_of(const Graph& graph);

/// The same graph gives the same bytes. Throws Error where the graph is not sound or holds what ONNX has no word for (a
/// node with an Opaque attribute), where the structure alone takes 2 GB, where the file cannot be written, and where it
/// reads back as another graph.
void write_crumb_graph(const Graph& graph, const std::filesystem::path& path,
                       const CrumbGraphOptions& options = {});

/// Whether a packed file means to hold a graph, and whether it holds nothing else: a checkpoint's file may have one, too.
bool holds_graph(const CrumbHeader& header);
bool holds_only_graph(const CrumbHeader& header);

/// The graph of an opened packed file, as it was written: the codes are copied out of the file once, and checked. A
/// Failure says which tensor or node is wrong; the file's name is not in it.
Result<Graph> graph_of(const CrumbFile& file);

/// The same with the codes where they lie, each tensor's looked at when it is first used; the graph keeps the file open.
Result<Graph> graph_on(const std::shared_ptr<const CrumbFile>& file);

/// A packed file that holds a graph. Throws Error, which names the file.
Graph read_crumb_graph(const std::filesystem::path& path);

/// Whether a file begins as packed files do.
bool is_crumb_file(const std::filesystem::path& path);

}  // namespace crumb::graph
