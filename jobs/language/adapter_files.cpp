#include "jobs/language/adapter_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "base/files/text.h"
#include "base/within.h"
#include "formats/adapters/read_adapter.h"
#include "formats/checkpoint/decoder_config.h"
#include "graph/adapters.h"
#include "graph/packed/crumb_graph.h"
#include "jobs/language/base_copies.h"
#include "models/weight_source.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;

/// Returns the size of the model's heads, or 0.
std::size_t head_size(const TensorSource& base) {
  const std::optional<std::string> config = models::weights_of(base)->file("config.json");
  if (!config) return 0;
  try {
    return DecoderConfig::parse(JsonFile("config.json", *config)).head_size;
  } catch (const Error&) {
    return 0;  // not a decoder
  }
}

/// Returns a name of letters, digits, - and _ that no adapter of the graph has.
std::string name_for(const std::string& path, const graph::Graph& graph) {
  fs::path file = fs::path(path).lexically_normal();
  if (!file.has_filename()) file = file.parent_path();
  std::string name = file.stem().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '_'; }, '_');
  if (name.empty()) name = "adapter";
  const std::vector<std::string> taken = graph::adapter_names(graph);
  std::string free = name;
  for (int i = 1; std::ranges::find(taken, free) != taken.end(); ++i) free = name + "_" + std::to_string(i);
  return free;
}

}  // namespace

std::vector<Adapter> read_adapters(const std::vector<std::string>& paths, const TensorSource& base,
                                   Observer& observer) {
  std::vector<Adapter> adapters;
  for (const std::string& path : paths)
    adapters.push_back(read_adapter(path, head_size(base), check_with_base(base, observer)));
  return adapters;
}

graph::Graph with_adapters(graph::Graph graph, const std::vector<std::string>& paths,
                           const TensorSource& base, Observer& observer) {
  for (const std::string& path : paths) {
    const Adapter adapter = read_adapters({path}, base, observer)[0];
    try {
      const std::string name = name_for(path, graph);
      graph = graph::add_adapter(std::move(graph), adapter, name);
    } catch (const Error& error) {
      throw within(quote_text(path), error);
    }
  }
  return graph;
}

std::optional<std::string> adapter_tensor_in(const std::string& input) {
  if (!graph::is_crumb_file(input)) return std::nullopt;
  const CrumbFile file = CrumbFile::open(input).take(quote_text(input));
  for (const PackedTensor& tensor : file.header().tensors)
    if (graph::is_of_adapter(tensor.name)) return tensor.name;
  return std::nullopt;
}

}  // namespace crumb::jobs
