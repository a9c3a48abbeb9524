// Checks whether two files hold the same network, as far as its inputs, outputs and shapes of constants tell.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"

namespace crumb::jobs {

/// A network and its name in messages: a file, or a flag and its file.
struct NamedNetwork {
  const graph::Graph& graph;
  std::string name;
  std::map<std::string, std::string> files;  ///< stored with it, by path
};

/// Throws usage Error where `found` is another network than `expected`, and names the difference: the first
/// input or output with another name or shape, the first constant of both with another shape. Where both have
/// the same config.json, the shapes of constants may differ: stages that double channels (crumb quantize
/// --stages split) change them.
void expect_same_network(const NamedNetwork& found, const NamedNetwork& expected);

}  // namespace crumb::jobs
