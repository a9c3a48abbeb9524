#include "jobs/language/line_encoder.h"

#include "jobs/engines/graph_inputs.h"
#include "models/read_graph.h"
#include "models/weight_source.h"

namespace crumb::jobs {

runtime::SentenceEncoder open_line_encoder(const std::string& path, const runtime::PromptChoice& prompt) {
  const auto source = models::open_weights(path);
  return runtime::SentenceEncoder::load(
      for_runtime(models::open_graph(path)), [&](const std::string& file) { return source->file(file); },
      source->describe(), prompt);
}

}  // namespace crumb::jobs
