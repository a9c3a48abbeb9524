#include "cli/language_model.h"

#include "cli/graph_inputs.h"
#include "models/read_graph.h"
#include "models/weight_source.h"

namespace crumb::cli {

runtime::LanguageModel open_language_model(const std::string& path) {
  const auto files = models::open_weights(path);
  return runtime::LanguageModel::load(
      for_runtime(models::open_graph(path)), [&](std::string_view file) { return files->file(file); },
      files->describe());
}

}  // namespace crumb::cli
