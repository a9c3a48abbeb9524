#include "jobs/sweep/measure.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/files/text.h"
#include "graph/batches.h"
#include "graph/onnx/array_files.h"
#include "graph/onnx/infer_shapes.h"
#include "jobs/engines/prepare_graph.h"
#include "jobs/language/line_encoder.h"
#include "jobs/language/score_text.h"
#include "jobs/samples/calibration_data.h"
#include "jobs/samples/read_lines.h"
#include "jobs/samples/tokenized_text.h"
#include "models/encoder_inputs.h"
#include "models/read_graph.h"

namespace crumb::jobs {
namespace {

using eval::Scores;
using graph::Graph;
using graph::Tensor;

constexpr std::int64_t kPiece = 256;  // samples that run together

/// A network's outputs for all samples.
struct Outputs {
  std::vector<float> values;
  std::vector<eval::ScoreShape> shapes;  ///< one for each file
};

eval::Labels read_labels(const std::string& path, const Observer& observer) {
  if (path.empty()) return {};
  const Tensor labels = graph::read_array(path);
  if (labels.size() == 0)
    throw usage_error(observer.spelled("labels") + " " + quote_text(path) + " holds no numbers");
  if (labels.type() == graph::ElementType::kFloat || labels.type() == graph::ElementType::kDouble)
    return {.classes = {}, .values = labels.to_floats()};
  return {.classes = labels.to_ints(), .values = {}};
}

/// Measures a graph's first output.
class ArrayMeasure final : public Measure {
 public:
  ArrayMeasure(const NetworkSource& source, SweepRequest requested, const Observer& observer)
      : source_(source),
        requested_(std::move(requested)),
        observer_(observer),
        labels_(read_labels(requested_.labels, observer)) {}

  Scores of_float() override { return scores(expected()); }
  Scores of(const std::string& file) override {
    const Outputs& wanted = expected();
    const Outputs found = outputs_of(file);
    if (found.values.size() != wanted.values.size())
      throw Error("it gives " + std::to_string(found.values.size()) + " numbers, and the float network " +
                  std::to_string(wanted.values.size()));
    return scores(found);
  }

 private:
  const Outputs& expected() {
    if (!expected_) {
      expected_ = outputs_of(requested_.input);
      try {
        eval::check_labels(labels_, expected_->shapes);
      } catch (const Error& error) {
        throw usage_error(observer_.spelled("labels") + " " + quote_text(requested_.labels) + ": " +
                          error.what());
      }
    }
    return *expected_;
  }

  Scores scores(const Outputs& found) const {
    return eval::score_outputs(expected_->values, found.values, expected_->shapes, labels_, requested_.peak);
  }

  /// Of a file of the sweep, or of the network's own.
  Graph graph_of(const std::string& file) const {
    const bool is_archive = file == requested_.input && is_torchscript(file);
    return graph::infer_shapes(is_archive ? source_.graph : models::open_graph(file));
  }

  Outputs outputs_of(const std::string& file) const {
    const Graph graph = graph_of(file);
    const graph::BatchAxes axes =
        graph::parse_batch_axes(graph, requested_.batch_axes, observer_.spelled("batch_axes"));
    const CalibrationData data(graph, requested_.valid, observer_.spelled("valid"), "samples", axes);
    const auto executable = prepare_on_either(graph, requested_.threads);
    Outputs all;
    for (std::size_t i = 0; i < data.files(); ++i) {
      const std::vector<Tensor> inputs = data.inputs(i);
      const auto made =
          graph::run_batch(graph, *executable, inputs, graph::plan_batch(graph, inputs, kPiece, axes));
      const Tensor& output = made.at(graph.outputs.at(0));
      if (output.type() != graph::ElementType::kFloat)
        throw Error("the first output, " + quote_text(graph.outputs[0]) + ", holds " +
                    std::string(graph::name_of(output.type())) + "; expected float32");
      const std::vector<float> values = output.to_floats();
      all.values.insert(all.values.end(), values.begin(), values.end());
      // The axis of samples is not one of rows.
      all.shapes.push_back({.samples = output.rank() > 0 ? static_cast<std::size_t>(output.shape()[0]) : 1,
                            .width = output.rank() > 1 ? static_cast<std::size_t>(output.shape().back()) : 1,
                            .size = values.size()});
    }
    return all;
  }

  const NetworkSource& source_;
  const SweepRequest requested_;
  const Observer& observer_;
  const eval::Labels labels_;
  std::optional<Outputs> expected_;
};

/// Measures as crumb embed and crumb agree do.
class SentenceMeasure final : public Measure {
 public:
  explicit SentenceMeasure(SweepRequest requested) : requested_(std::move(requested)) {
    for (const std::string& file : requested_.valid) {
      if (requested_.pairs) {
        std::ranges::copy(read_pairs(file), std::back_inserter(pairs_));
      } else {
        std::ranges::copy(read_lines(file), std::back_inserter(lines_));
      }
    }
    if (lines_.empty() && pairs_.empty())
      throw usage_error(quote_text(requested_.valid.front()) + " holds no line");
  }

  Scores of_float() override { return scores(expected()); }
  Scores of(const std::string& file) override {
    expected();
    return scores(vectors_of(file));
  }

 private:
  const std::vector<float>& expected() {
    if (expected_.empty()) expected_ = vectors_of(requested_.input);
    return expected_;
  }

  /// Vectors are not logits: rows are compared as a whole.
  Scores scores(const std::vector<float>& found) const {
    const eval::ScoreShape shape{.samples = lines_.size() + pairs_.size(), .width = 1, .size = found.size()};
    return eval::score_outputs(expected_, found, {&shape, 1}, {}, requested_.peak);
  }

  std::vector<float> vectors_of(const std::string& file) const {
    const runtime::SentenceEncoder encoder = open_line_encoder(file);
    return requested_.pairs ? encoder.embed_pairs(pairs_, requested_.threads)
                            : encoder.embed(lines_, requested_.threads);
  }

  const SweepRequest requested_;
  std::vector<std::string> lines_;
  std::vector<runtime::TextPair> pairs_;  ///< instead, where lines are pairs
  std::vector<float> expected_;
};

/// Measures as crumb perplexity --baseline does.
class TextMeasure final : public Measure {
 public:
  TextMeasure(SweepRequest requested, Observer& observer)
      : requested_(std::move(requested)),
        observer_(observer),
        text_(read_tokenized_text(requested_.valid.front(), observer)) {}

  Scores of_float() override {
    Scores scores = measured(requested_.input, "");
    scores["kl"] = 0;
    scores["agreement"] = 1;
    return scores;
  }
  Scores of(const std::string& file) override { return measured(file, requested_.input); }

 private:
  Scores measured(const std::string& file, const std::string& baseline) const {
    const ScoreReport report = score_text(text_,
                                          {.models = {file},
                                           .text = requested_.valid.front(),
                                           .baseline = baseline,
                                           .context = requested_.context,
                                           .tokens = requested_.valid_tokens,
                                           .threads = requested_.threads},
                                          "the float network", observer_);
    const eval::Perplexity& made = report.models.front().made;
    Scores scores{{"perplexity", made.perplexity}};
    if (!made.against) return scores;
    scores["kl"] = made.against->kl.value;
    scores["agreement"] = made.against->same_top1.value;
    return scores;
  }

  const SweepRequest requested_;
  Observer& observer_;
  const std::string text_;
};

void refuse_for_others(bool is_given, const std::string& field, const std::string& what) {
  if (is_given) throw usage_error(field + " is for " + what);
}

}  // namespace

std::unique_ptr<Measure> measure_of(const NetworkSource& source, SweepRequest requested, Observer& observer) {
  const auto field = [&](const char* name) { return observer.spelled(name); };
  for (const std::string& path : requested.valid) {
    if (path.find('=') == std::string::npos && !std::filesystem::exists(path))
      throw usage_error(field("valid") + " " + quote_text(path) + ": no such file or folder");
  }
  const auto texts = std::ranges::count_if(requested.valid, names_text);
  const bool is_sentences = texts > 0 && source.checkpoint() && models::is_encoder(source.graph);
  const bool is_language = texts > 0 && !is_sentences;
  refuse_for_others(!is_language && requested.valid_tokens > 0, field("valid_tokens"),
                    "a language model's text");
  refuse_for_others(!is_sentences && requested.pairs, field("pairs"), "lines that a sentence encoder takes");
  refuse_for_others(!is_language && requested.context > 0, field("context"), "a language model's text");
  if (texts == 0) return std::make_unique<ArrayMeasure>(source, std::move(requested), observer);
  refuse_for_others(!requested.labels.empty(), field("labels"), "networks that are measured on arrays");
  if (texts != static_cast<std::ptrdiff_t>(requested.valid.size()))
    throw usage_error(field("valid") + " gives texts and arrays; expected one kind");
  if (!source.checkpoint())
    throw usage_error(field("valid") + " " + quote_text(requested.valid.front()) +
                      " is a text, which is for a language model's or sentence encoder's folder or GGUF "
                      "file; a graph takes .npy");
  if (is_sentences) return std::make_unique<SentenceMeasure>(std::move(requested));
  refuse_for_others(requested.valid.size() > 1, field("valid") + " with several texts", "sentence encoders");
  refuse_for_others(requested.peak.has_value(), field("peak"), "networks whose psnr is measured");
  constexpr std::size_t kContext = 1024;  // as crumb perplexity has it
  if (requested.context == 0) requested.context = kContext;
  return std::make_unique<TextMeasure>(std::move(requested), observer);
}

}  // namespace crumb::jobs
