#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/text/number.h"
#include "base/within.h"
#include "eval/paired/rank_metric.h"
#include "jobs/evaluate/conditions.h"
#include "jobs/evaluate/evaluation_parts.h"
#include "jobs/evaluate/sample_labels.h"
#include "jobs/evaluate/text_evaluation.h"
#include "jobs/language/line_encoder.h"
#include "jobs/samples/read_lines.h"

namespace crumb::jobs {
namespace {

constexpr eval::MetricName kSpearman{.name = "spearman", .digits = 5};
constexpr std::size_t kLinesTogether = 64;  // lines that are embedded before their vectors are compared

double cosine_of(std::span<const float> a, std::span<const float> b) {
  double product = 0, a_square = 0, b_square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * b[i];
    a_square += static_cast<double>(a[i]) * a[i];
    b_square += static_cast<double>(b[i]) * b[i];
  }
  if (a_square == 0 || b_square == 0) return a_square == b_square ? 1 : 0;
  return std::clamp(product / std::sqrt(a_square * b_square), -1.0, 1.0);
}

/// Sentences of some lines, and which of them belong together.
struct Sentences {
  std::vector<std::string> texts;
  std::size_t of_line = 1;

  Sentences(std::span<const std::string> lines, bool are_pairs, std::size_t first)
      : of_line(are_pairs ? 2 : 1) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::size_t tab = lines[i].find('\t');
      if (are_pairs != (tab != std::string::npos) ||
          (are_pairs && lines[i].find('\t', tab + 1) != std::string::npos))
        throw Error("line " + std::to_string(first + i + 1) + " has " +
                    count_text(static_cast<std::uint64_t>(std::ranges::count(lines[i], '\t')), "tabulator") +
                    "; expected " +
                    (are_pairs ? "one, between two sentences" : "none, as in the first line"));
      texts.push_back(lines[i].substr(0, tab));
      if (are_pairs) texts.push_back(lines[i].substr(tab + 1));
    }
  }
};

class SentenceEvaluation {
 public:
  SentenceEvaluation(const EvaluateRequest& request, Observer& observer)
      : request_(request), observer_(observer) {
    if (request.data.size() != 1)
      throw usage_error(observer.spelled("data") + " takes one file of lines for the task embed");
    lines_ = read_lines(request.data[0]);
    if (lines_.empty()) throw usage_error(quote_text(request.data[0]) + " holds no line");
    are_pairs_ = lines_[0].find('\t') != std::string::npos;
    if (!request.labels.empty()) {
      if (!are_pairs_)
        throw usage_error(observer.spelled("labels") +
                          " are of pairs: expected two sentences a line, with a tabulator between them");
      labels_.emplace(request.labels, observer.spelled("labels"));
      if (labels_->samples() != lines_.size())
        throw usage_error(observer.spelled("labels") + " " + quote_text(request.labels) + " has " +
                          count_text(labels_->samples(), "label") + ", and the data " +
                          count_text(lines_.size(), "line"));
    }
    check_conditions(request.fail_if, labels_ ? std::vector{kSpearman} : std::vector<eval::MetricName>(),
                     false, observer.spelled("fail_if"));
    encoders_.push_back(open_line_encoder(request.baseline));
    metrics_.push_back(std::make_unique<eval::RankMetric>(kSpearman));
    for (const std::string& model : request.models) {
      encoders_.push_back(open_line_encoder(model));
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
        for (std::size_t begin = 0; begin < lines_.size(); begin += kLinesTogether) {
          check_interrupt();
          add(begin, std::min(kLinesTogether, lines_.size() - begin));
          report.samples = std::min(begin + kLinesTogether, lines_.size());
          observer_.progress(
              {.what = "evaluating", .items = "lines", .done = report.samples, .all = lines_.size()});
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
  void add(std::size_t begin, std::size_t count) {
    const std::span<const std::string> lines(lines_);
    const Sentences sentences(lines.subspan(begin, count), are_pairs_, begin);
    std::vector<std::vector<float>> vectors;
    for (const runtime::SentenceEncoder& encoder : encoders_)
      vectors.push_back(encoder.embed(sentences.texts, request_.threads,
                                      [](std::size_t, std::size_t) { check_interrupt(); }));
    const std::size_t width = encoders_.front().width(), size = width * sentences.of_line;
    const std::int64_t shape[] = {static_cast<std::int64_t>(sentences.of_line),
                                  static_cast<std::int64_t>(width)};
    for (std::size_t i = 0; i < count; ++i) {
      const auto of_line = [&](std::size_t m) {
        return std::span<const float>(vectors[m]).subspan(i * size, size);
      };
      for (std::size_t m = 1; m < vectors.size(); ++m)
        outputs_[m - 1].add({.shape = shape, .values = of_line(0)}, {.shape = shape, .values = of_line(m)});
      if (!labels_) continue;
      const double label = next_label(begin + i);
      for (std::size_t m = 0; m < vectors.size(); ++m)
        metrics_[m]->add(cosine_of(of_line(m).first(width), of_line(m).last(width)), label);
    }
  }

  double next_label(std::size_t line) {
    const eval::SampleLabel label = labels_->next(true);
    if (label.values.size() == 1 && std::isfinite(label.values[0])) return label.values[0];
    const auto number = parse_number<double>(label.text);
    if (!labels_->are_texts() || !number || !std::isfinite(*number))
      throw Error(observer_.spelled("labels") + " " + quote_text(request_.labels) + ": label " +
                  std::to_string(line) + " is not one finite number");
    return *number;
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
    made.conditions = hold(request_.fail_if, made, 0);
    return made;
  }

  const EvaluateRequest& request_;
  Observer& observer_;
  std::vector<std::string> lines_;
  bool are_pairs_ = false;
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
