#include "jobs/language/language_model.h"

#include <filesystem>

#include "base/within.h"
#include "graph/adapters.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/quantize/key_cache.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/engines/graph_inputs.h"
#include "jobs/language/adapter_files.h"
#include "models/read_graph.h"
#include "models/weight_source.h"
#include "quant/recipe/recipe.h"

namespace crumb::jobs {

namespace {

graph::Graph graph_of(const std::string& path, const ModelOptions& model_options, const Observer& observer) {
  graph::Graph graph = models::open_graph(path);
  if (model_options.without_adapters) graph = graph::without_adapters(std::move(graph));
  if (model_options.kv_cache.empty()) return graph;
  try {
    const SpecOrKeep spec = parse_cache_or_keep(model_options.kv_cache);
    return spec ? graph::with_quantized_cache(graph::infer_shapes(std::move(graph)), *spec) : graph;
  } catch (const Error& error) {
    throw within(observer.spelled("kv_cache") + " " + model_options.kv_cache, error);
  }
}

}  // namespace

runtime::LanguageModel open_language_model(const std::string& path, const ModelOptions& model_options,
                                           Observer& observer) {
  const auto files = models::open_weights(path);
  if (std::filesystem::is_directory(path)) note_reading(*files->checkpoint(), observer);
  const auto read = [&](std::string_view file) { return files->file(file); };
  graph::Graph graph = graph_of(path, model_options, observer);
  if (!model_options.adapters.empty())
    graph = with_adapters(std::move(graph), model_options.adapters, TensorSource::open(path), observer);
  return runtime::LanguageModel::load(for_runtime(std::move(graph)), read, files->describe());
}

}  // namespace crumb::jobs
