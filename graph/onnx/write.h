// Writes a graph as it is to an ONNX file. export/ does what a consumer needs beyond that.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// Returns the bytes of a model file. The same graph gives the same bytes. Throws Error where a node has an
/// Opaque attribute and where the file would have 2 GB or more.
std::string onnx_bytes(const Graph& graph);

/// Throws Error where the disk of a file to be written has less than `bytes` free.
void expect_room(const std::filesystem::path& path, std::uint64_t bytes);

/// Writes to a temporary file and renames it; a graph of 2 GB or more has its large initializers in
/// `<file>.data`. `check` gets the graph read back from the written bytes before they get the target's name:
/// if it throws, no new file is left, and an older one stays, with its data.
using ReadBack = std::function<void(const Graph& found)>;
inline constexpr std::uint64_t kMostInsideOnnx =
    2'000'000'000;  ///< bytes of constants; a protobuf message has less than 2^31
void write_onnx(const Graph& graph, const std::filesystem::path& path, const ReadBack& check = {},
                std::uint64_t most_inside = kMostInsideOnnx);

}  // namespace crumb::graph
