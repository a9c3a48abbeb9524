#include "graph/buffers.h"

#include <sstream>

namespace crumb::graph {

std::set<std::string> buffers(const Graph& graph) {
  const auto found = graph.metadata.find(kBuffersKey);
  if (found == graph.metadata.end()) return {};
  std::set<std::string> names;
  std::istringstream lines(found->second);
  for (std::string name; std::getline(lines, name);) names.insert(name);
  return names;
}

void add_buffer(Graph& graph, const std::string& name) { graph.metadata[kBuffersKey] += name + "\n"; }

}  // namespace crumb::graph
