#include "cli/language_model.h"

#include "base/within.h"
#include "cli/adapter_files.h"
#include "cli/flag_group.h"
#include "cli/graph_inputs.h"
#include "cli/not_empty.h"
#include "graph/adapters.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/quantize/key_cache.h"
#include "models/read_graph.h"
#include "models/weight_source.h"
#include "quant/recipe/recipe.h"

namespace crumb::cli {

namespace {

graph::Graph graph_of(const std::string& path, const std::string& kv_cache, bool without_adapters) {
  graph::Graph graph = models::open_graph(path);
  if (without_adapters) graph = graph::without_adapters(std::move(graph));
  if (kv_cache.empty()) return graph;
  try {
    const SpecOrKeep spec = parse_cache_or_keep(kv_cache);
    return spec ? graph::with_quantized_cache(graph::infer_shapes(std::move(graph)), *spec) : graph;
  } catch (const Error& error) {
    throw within("--kv-cache " + kv_cache, error);
  }
}

}  // namespace

void add_model_flags(CLI::App& verb, ModelWishes& wishes) {
  verb.add_option(
          "--kv-cache", wishes.kv_cache,
          "Keep keys and values as codes: int8, int4, e4m3fn, ..., one scale for each token and head, or "
          "int4:group=32 for groups of a head; with :rotate behind a Hadamard matrix (as the file says)")
      ->type_name("SPEC")
      ->group(kInputFlags)
      ->check(not_empty);
  add_adapter_flag(verb, wishes.adapters);
  verb.add_flag("--without-adapters", wishes.without_adapters,
                "Leave out the adapters that the model's own file has")
      ->group(kInputFlags);
}

runtime::LanguageModel open_language_model(const std::string& path, const ModelWishes& wishes) {
  const auto files = models::open_weights(path);
  const auto read = [&](std::string_view file) { return files->file(file); };
  graph::Graph graph = graph_of(path, wishes.kv_cache, wishes.without_adapters);
  return runtime::LanguageModel::load(for_runtime(with_adapters(std::move(graph), wishes.adapters, read)),
                                      read, files->describe());
}

}  // namespace crumb::cli
