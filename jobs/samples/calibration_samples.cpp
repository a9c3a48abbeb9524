#include "jobs/samples/calibration_samples.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/files/text.h"
#include "formats/checkpoint/decoder_config.h"
#include "jobs/shape_notes.h"
#include "models/encoder_inputs.h"
#include "models/weight_source.h"
#include "runtime/sentences/sentence_tokenizer.h"
#include "text/text_tokenizer.h"

namespace crumb::jobs {

namespace fs = std::filesystem;

bool names_text(const std::string& data) {
  std::error_code error;
  return fs::is_regular_file(data, error) && fs::path(data).extension() != ".npy";
}

CalibrationSamples::CalibrationSamples(const std::vector<std::string>& data, std::size_t tokens,
                                       const TensorSource* checkpoint, const graph::Graph& graph,
                                       const graph::Graph& prepared, Observer& observer,
                                       const std::vector<std::string>& batch_axes, bool pairs) {
  const std::string field = observer.spelled("data");
  for (const std::string& path : data) {
    if (path.find('=') == std::string::npos && !fs::exists(path))
      throw usage_error(field + " " + quote_text(path) + ": no such file or folder");
    refuse_foreign_samples(path, field);
  }
  const auto refuse_pairs = [&] {
    if (pairs)
      throw usage_error(observer.spelled("pairs") + " is for lines of text that a sentence encoder takes");
  };
  if (std::ranges::none_of(data, names_text)) {
    refuse_pairs();
    if (tokens > 0) throw usage_error(observer.spelled("tokens") + " is for a text as " + field);
    arrays_.emplace(prepared, data, field, "calibration data",
                    graph::parse_batch_axes(graph, batch_axes, observer.spelled("batch_axes")));
    note_symbols(graph, observer);
    return;
  }
  if (!batch_axes.empty())
    throw usage_error(observer.spelled("batch_axes") + " is for arrays, and " + field + " is a text");
  if (const auto other = std::ranges::find_if_not(data, names_text); other != data.end())
    throw usage_error(field + " " + quote_text(*other) + " is no text, and " + quote_text(data.front()) +
                      " is one; give texts or arrays");
  const auto files = checkpoint ? models::weights_of(*checkpoint) : nullptr;
  const std::optional<std::string> config = files ? files->file("config.json") : std::nullopt;
  if (!config)
    throw usage_error(field + " " + quote_text(data.front()) +
                      " is a text, which is for a language model's or sentence encoder's folder or GGUF "
                      "file; a graph takes .npy");
  const auto read = [&](std::string_view path) { return files->file(path); };
  if (models::is_encoder(graph)) {
    lines_.emplace(prepared, runtime::SentenceTokenizer::load(read, "the model"), data, tokens, pairs);
    return;
  }
  refuse_pairs();
  const DecoderConfig shape = DecoderConfig::parse(JsonFile("config.json", *config));
  text_.emplace(prepared, text::TextTokenizer::load(read), read, data, tokens, shape.max_positions, observer);
}

void CalibrationSamples::note_symbols(const graph::Graph& graph, Observer& observer) const {
  if (!repeats_symbols(graph)) return;
  const std::vector<graph::Tensor> first = arrays_->inputs(0);
  std::map<std::string, std::vector<std::int64_t>> sizes;
  for (std::size_t i = 0; i < first.size(); ++i) sizes[graph.inputs[i]] = first[i].shape();
  for (const std::string& note : notes_of_symbols(graph, sizes)) observer.note(note);
}

graph::Batches CalibrationSamples::batches() const {
  if (lines_) return lines_->batches();
  return text_ ? text_->batches() : arrays_->batches();
}

}  // namespace crumb::jobs
