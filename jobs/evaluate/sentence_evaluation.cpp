#include <algorithm>
#include <optional>
#include <span>

#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/within.h"
#include "eval/paired/rank_metric.h"
#include "jobs/evaluate/conditions.h"
#include "jobs/evaluate/evaluation_parts.h"
#include "jobs/evaluate/sample_labels.h"
#include "jobs/evaluate/text_evaluation.h"
#include "jobs/language/line_encoder.h"
#include "jobs/samples/read_lines.h"
#include "quant/agreement.h"

namespace crumb::jobs {
namespace {

constexpr eval::MetricName kSpearman{.name = "spearman", .digits = 5};
constexpr std::size_t kLinesTogether = 64;  // lines that are embedded before their vectors are compared

/// The sentences of all lines, one after the other: one a line, or two where the first line has a tab. Throws
/// Error where another line has not as many.
std::vector<std::string> sentences_of(std::vector<std::string> lines, const std::string& path) {
  if (lines[0].find('\t') != std::string::npos) {
    std::vector<std::string> sentences;
    for (runtime::TextPair& pair : as_pairs(lines, path)) {
      sentences.push_back(std::move(pair.first));
      sentences.push_back(std::move(pair.second));
    }
    return sentences;
  }
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (const auto tabs = std::ranges::count(lines[i], '\t'); tabs > 0)
      throw Error(quote_text(path) + " line " + std::to_string(i + 1) + ": found " +
                  count_text(static_cast<std::size_t>(tabs), "tab") +
                  ", expected none, as in the first line");
  return lines;
}

/// Throws Error that names the file.
runtime::SentenceEncoder open(const std::string& path) {
  try {
    return open_line_encoder(path);
  } catch (const Error& error) {
    if (std::string(error.what()).find(path) != std::string::npos) throw;
    throw within(quote_text(path), error);
  }
}

class SentenceEvaluation {
 public:
  SentenceEvaluation(const EvaluateRequest& request, Observer& observer)
      : request_(request), observer_(observer) {
    if (request.data.size() != 1)
      throw usage_error(observer.spelled("data") + " takes one file of lines for the task embed");
    std::vector<std::string> lines = read_lines(request.data[0]);
    if (lines.empty()) throw usage_error(quote_text(request.data[0]) + " holds no line");
    lines_ = lines.size();
    sentences_ = sentences_of(std::move(lines), request.data[0]);
    if (!request.labels.empty()) {
      if (of_line() != 2)
        throw usage_error(observer.spelled("labels") +
                          " are of pairs: expected two sentences a line, with a tabulator between them");
      labels_.emplace(request.labels, observer.spelled("labels"));
      if (labels_->samples() != lines_)
        throw usage_error(observer.spelled("labels") + " " + quote_text(request.labels) + " has " +
                          count_text(labels_->samples(), "label") + ", and the data " +
                          count_text(lines_, "line"));
    }
    check_conditions(request.fail_if, labels_ ? std::vector{kSpearman} : std::vector<eval::MetricName>(),
                     {.have_rows = false}, observer.spelled("fail_if"));
    encoders_.push_back(open(request.baseline));
    metrics_.push_back(std::make_unique<eval::RankMetric>(kSpearman));
    for (const std::string& model : request.models) {
      encoders_.push_back(open(model));
      metrics_.push_back(std::make_unique<eval::RankMetric>(kSpearman));
      outputs_.emplace_back(eval::RowAxis::kNone);
      if (encoders_.back().width() != encoders_.front().width())
        throw Error(quote_text(model) + " gives vectors of " + std::to_string(encoders_.back().width()) +
                    " numbers, and the baseline of " + std::to_string(encoders_.front().width()));
    }
  }

  EvaluateReport run() {
    EvaluateReport report{.task = "embed", .samples_are = "lines", .distance = "noise"};
    {
      const ProgressScope scope(observer_);
      try {
        for (std::size_t begin = 0; begin < lines_; begin += kLinesTogether) {
          check_interrupt();
          add(begin, std::min(kLinesTogether, lines_ - begin));
          report.samples = std::min(begin + kLinesTogether, lines_);
          observer_.progress({.what = "evaluating", .items = "lines", .done = report.samples, .all = lines_});
        }
      } catch (const Interrupted&) {
        if (report.samples == 0) throw;
        report.interrupted = true;
      }
    }
    if (labels_) report.first_metric = kSpearman.name;
    for (std::size_t i = 0; i < request_.models.size(); ++i) report.models.push_back(evaluation_of(i));
    return report;
  }

 private:
  std::size_t of_line() const { return sentences_.size() / lines_; }  ///< sentences: 1 or 2

  void add(std::size_t begin, std::size_t count) {
    const auto first = sentences_.begin() + static_cast<std::ptrdiff_t>(begin * of_line());
    const std::vector<std::string> sentences(first, first + static_cast<std::ptrdiff_t>(count * of_line()));
    std::vector<std::vector<float>> vectors;
    for (const runtime::SentenceEncoder& encoder : encoders_)
      vectors.push_back(
          encoder.embed(sentences, request_.threads, [](std::size_t, std::size_t) { check_interrupt(); }));
    const std::size_t width = encoders_.front().width(), size = width * of_line();
    const std::int64_t shape[] = {static_cast<std::int64_t>(of_line()), static_cast<std::int64_t>(width)};
    for (std::size_t i = 0; i < count; ++i) {
      const auto vectors_of = [&](std::size_t m) {
        return std::span<const float>(vectors[m]).subspan(i * size, size);
      };
      for (std::size_t m = 1; m < vectors.size(); ++m)
        outputs_[m - 1].add({.shape = shape, .values = vectors_of(0)},
                            {.shape = shape, .values = vectors_of(m)});
      if (!labels_) continue;
      const double label = next_label(begin + i);
      for (std::size_t m = 0; m < vectors.size(); ++m)
        metrics_[m]->add(cosine(vectors_of(m).first(width), vectors_of(m).last(width)), label);
    }
  }

  double next_label(std::size_t line) {
    const eval::SampleLabel label = labels_->next(LabelKind::kValues);
    if (label.values.size() != 1)
      throw Error(labels_->name() + ", sample " + std::to_string(line) + ": found " +
                  count_text(label.values.size(), "number") + ", expected one");
    return label.values[0];
  }

  ModelEvaluation evaluation_of(std::size_t number) const {
    const eval::OutputComparison& output = outputs_[number];
    ModelEvaluation made{.model = request_.models[number],
                         .outputs = {{.name = "sentence_embedding", .figures = output.figures()}}};
    if (labels_)
      made.metrics.push_back(compare_metric(*metrics_[0], *metrics_[number + 1], request_.threads));
    std::vector<double> distance;
    for (std::size_t i = 0; i < output.samples(); ++i) distance.push_back(output.distance(i));
    made.worst = worst_samples(nullptr, nullptr, distance, request_.worst);
    for (WorstSample& worst : made.worst) {
      if (request_.report.path.empty()) break;
      for (std::size_t i = 0; i < of_line(); ++i)
        worst.text += (i > 0 ? "\n" : "") + sentences_[worst.sample * of_line() + i];
    }
    made.conditions = hold(request_.fail_if, made, 0);
    return made;
  }

  const EvaluateRequest& request_;
  Observer& observer_;
  std::size_t lines_ = 0;
  std::vector<std::string> sentences_;
  std::optional<SampleLabels> labels_;
  std::vector<runtime::SentenceEncoder> encoders_;          ///< the baseline's first
  std::vector<std::unique_ptr<eval::RankMetric>> metrics_;  ///< likewise
  std::vector<eval::OutputComparison> outputs_;
};

}  // namespace

EvaluateReport evaluate_sentences(const EvaluateRequest& request, Observer& observer) {
  return SentenceEvaluation(request, observer).run();
}

}  // namespace crumb::jobs
