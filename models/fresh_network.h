// The network of a configuration, with weights that chance draws: where training begins from scratch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "graph/graph.h"

namespace crumb::models {

struct FreshNetwork {
  graph::Graph graph;
  std::map<std::string, std::string>
      files;  ///< configuration, tokenizer and their like, by path in the folder
};

/// `config`: a folder with config.json and the tokenizer's files, or that config.json itself. Matrices are
/// drawn from a normal distribution of config.json's initializer_range (0.02), biases are 0 and norms change
/// nothing; the same seed gives the same numbers everywhere. Throws Error, which names the folder, as
/// graph_of_checkpoint does, and where a file cannot be read.
FreshNetwork fresh_network(const std::filesystem::path& config, std::uint64_t seed);

}  // namespace crumb::models
