#include "tasks/language/student/start_adapters.h"

#include "base/error.h"
#include "graph/buffers.h"
#include "graph/edit.h"

namespace crumb::tasks {
namespace {

using graph::AdapterType;
using graph::Graph;

/// Takes each adapter out and adds it back in its type.
Graph kept_as(Graph graph, const std::vector<std::pair<std::string, AdapterType>>& types) {
  std::vector<Adapter> adapters;
  for (const auto& [name, type] : types) adapters.push_back(graph::adapter_of(graph, name));
  graph = graph::without_adapters(std::move(graph));
  for (std::size_t i = 0; i < types.size(); ++i)
    graph = graph::add_adapter(std::move(graph), adapters[i], types[i].first, types[i].second);
  return graph;
}

}  // namespace

StartAdapters::StartAdapters(const Graph& start, bool learn) : learn_(learn) {
  for (const std::string& name : graph::adapter_names(start))
    types_.emplace_back(name, graph::adapter_type(start, name));
  if (learn_ && types_.empty())
    throw usage_error(
        "adapters are to learn along, and the network has none; the stage low_rank makes one, or crumb "
        "recover");
  for (const auto& [name, codes] : start.quantized)
    if (graph::is_of_adapter(name)) codes_.emplace(name, codes);
  if (const auto own = start.metadata.find(graph::kBuffersKey); own != start.metadata.end())
    buffers_ = own->second;
}

Graph StartAdapters::trainable(Graph folded) const {
  if (learn_) {
    auto floats = types_;
    for (auto& [name, type] : floats) type = AdapterType::kFloat32;
    return kept_as(std::move(folded), floats);
  }
  for (const auto& [name, tensor] : folded.initializers)
    if (graph::is_of_adapter(name)) graph::add_buffer(folded, name);
  return folded;
}

Graph StartAdapters::kept(Graph trained) const {
  if (learn_) return kept_as(std::move(trained), types_);
  for (const auto& [name, codes] : codes_) graph::set_codes(trained, name, codes);
  trained.metadata.erase(graph::kBuffersKey);
  if (buffers_) trained.metadata[graph::kBuffersKey] = *buffers_;
  return trained;
}

}  // namespace crumb::tasks
