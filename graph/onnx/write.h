// ONNX files out: a graph as it stands. What a consumer needs beyond that is the business of export/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// The bytes of a model file. The same graph gives the same bytes. Throws Error where a node has an Opaque
/// attribute and where the file would have 2 GB or more.
std::string onnx_bytes(const Graph& graph);

/// Throws Error where the disk of a file that is to be written has less than so many bytes left.
void expect_room(const std::filesystem::path& path, std::uint64_t bytes);

/// Written beside the target and renamed; a graph of 2 GB and more puts its large initializers into
/// `<file>.data` beside it. `check` is given what the written bytes read back as, before they get the target's name:
/// where it throws, no file is left, and an older one stays, with its data.
using ReadBack = std::function<void(const Graph& found)>;
inline constexpr std::uint64_t kMostInsideOnnx =
    2'000'000'000;  ///< bytes of constants; protobuf holds less than 2^31 in all
void write_onnx(const Graph& graph, const std::filesystem::path& path, const ReadBack& check = {},
                std::uint64_t most_inside = kMostInsideOnnx);

}  // namespace crumb::graph
