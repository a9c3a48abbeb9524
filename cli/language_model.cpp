#include "cli/language_model.h"

#include "cli/adapter_files.h"
#include "cli/graph_inputs.h"
#include "cli/not_empty.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/quantize/key_cache.h"
#include "models/read_graph.h"
#include "models/weight_source.h"
#include "quant/recipe/recipe.h"

namespace crumb::cli {

namespace {

graph::Graph graph_of(const std::string& path, const std::string& kv_cache) {
  graph::Graph graph = models::open_graph(path);
  if (kv_cache.empty()) return graph;
  try {
    const SpecOrKeep spec = parse_cache_or_keep(kv_cache);
    return spec ? graph::with_quantized_cache(graph::infer_shapes(std::move(graph)), *spec) : graph;
  } catch (const Error& error) {
    throw Error("--kv-cache " + kv_cache + ": " + error.what(), error.kind());
  }
}

}  // namespace

void add_kv_cache_flag(CLI::App& verb, std::string& kv_cache) {
  verb.add_option(
          "--kv-cache", kv_cache,
          "Keep keys and values as codes: int8, int4, e4m3fn, ..., one scale for each token and head, or "
          "int4:group=32 for groups of a head; with :rotate behind a Hadamard matrix (as the file says)")
      ->check(not_empty);
}

runtime::LanguageModel open_language_model(const std::string& path, const std::string& kv_cache,
                                           const std::vector<std::string>& adapters) {
  const auto files = models::open_weights(path);
  const auto read = [&](std::string_view file) { return files->file(file); };
  return runtime::LanguageModel::load(for_runtime(with_adapters(graph_of(path, kv_cache), adapters, read)),
                                      read, files->describe());
}

}  // namespace crumb::cli
