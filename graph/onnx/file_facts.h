// What an ONNX file says and a Graph does not keep, because reading normalizes it: the order of nodes and
// imports, older names of domains, which initializers are inputs too, which types and shapes the file states.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

struct FileFacts {
  struct Import {
    std::string domain;
    std::int64_t version;
  };
  struct NodeFacts {
    std::string name, op, domain;
    std::vector<std::string> inputs, outputs;
  };

  std::int64_t ir_version = 0;
  std::vector<Import> imports;         ///< in the file's order and spelling
  std::vector<NodeFacts> nodes;        ///< of the main graph, in the file's order
  std::vector<std::string> functions;  ///< names of the functions that the model defines
  std::vector<std::string> initializers;
  std::vector<std::string> both;        ///< initializers that are also inputs
  std::map<std::string, Value> stated;  ///< type and shape of inputs, outputs and values between
};

/// Reads a file without judging it; read_onnx does that. Throws Error where the file is no ONNX model.
FileFacts file_facts(const std::filesystem::path& path);

}  // namespace crumb::graph
