#include "models/checkpoint_graph.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/files/text.h"
#include "formats/checkpoint/sentence_modules.h"
#include "graph/packed/crumb_graph.h"
#include "models/bert.h"
#include "models/model_weights.h"

namespace crumb::models {
namespace {

struct Architecture {
  std::string_view model_type;  ///< in config.json
  graph::Graph (*build)(ModelWeights& weights, const JsonFile& config);
};

constexpr std::array<Architecture, 1> kArchitectures = {{{"bert", build_bert}}};

std::string known() {
  std::string text;
  for (const Architecture& one : kArchitectures)
    text += (text.empty() ? "" : ", ") + std::string(one.model_type);
  return text;
}

JsonFile config_of(const ModelWeights& weights) {
  const std::string path =
      SentenceModules::transformer_path([&](const std::string& file) { return weights.text(file); }) +
      "config.json";
  const auto text = weights.text(path);
  if (!text) {
    throw Error("it has no " + path +
                ", so nothing says what network its tensors are; known are: " + known());
  }
  return {path, *text};
}

const Architecture& architecture_of(const JsonFile& config) {
  const auto type = config.string("model_type");
  if (!type) throw config.error("it has no \"model_type\"; known are: " + known());
  const auto found = std::ranges::find(kArchitectures, *type, &Architecture::model_type);
  if (found == kArchitectures.end()) {
    throw config.error("found the architecture " + quote_text(*type) +
                       ", which cannot be written as a graph; known are: " + known());
  }
  return *found;
}

CheckpointGraph built(const WeightSource& source) {
  ModelWeights weights(source);
  const JsonFile config = config_of(weights);
  graph::Graph graph = architecture_of(config).build(weights, config);
  return {.graph = std::move(graph), .unused = weights.unused()};
}

}  // namespace

bool is_checkpoint(const std::filesystem::path& path) {
  if (std::error_code none; std::filesystem::is_directory(path, none)) return true;
  if (!graph::is_crumb_file(path)) return false;
  const auto file = CrumbFile::open(path);
  return file.ok() &&
         !graph::holds_only_graph(file.value().header());  // of a damaged one, its reader says what is wrong
}

CheckpointGraph graph_of_checkpoint(const TensorSource& source, const std::string& name) {
  try {
    return built(*weights_of(source));
  } catch (const Error& error) {
    throw Error(name + ": " + error.what());
  }
}

CheckpointGraph graph_of_weights(const WeightSource& source) {
  try {
    return built(source);
  } catch (const Error& error) {
    throw Error(source.describe() + ": " + error.what());
  }
}

CheckpointGraph read_checkpoint_graph(const std::filesystem::path& path) {
  return graph_of_checkpoint(TensorSource::open(path), quote_text(path.string()));
}

}  // namespace crumb::models
