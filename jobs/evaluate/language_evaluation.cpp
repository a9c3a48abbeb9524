#include <cmath>
#include <limits>

#include "jobs/evaluate/conditions.h"
#include "jobs/evaluate/evaluation_parts.h"
#include "jobs/evaluate/text_evaluation.h"
#include "jobs/language/score_text.h"
#include "jobs/samples/tokenized_text.h"

namespace crumb::jobs {
namespace {

constexpr eval::MetricName kPerplexity{.name = "perplexity", .more_is_better = false, .digits = 4};

double exponential_of_mean(std::span<const double> sums) { return std::exp(sums[0] / sums[1]); }

ModelEvaluation evaluation_of(const ModelScore& score, const EvaluateRequest& request) {
  eval::SumMetric baseline(kPerplexity, exponential_of_mean, 2), model(kPerplexity, exponential_of_mean, 2);
  std::vector<double> distance;
  for (const eval::TextPiece& piece : score.made.pieces) {
    const auto targets = static_cast<double>(piece.targets);
    baseline.add(std::vector<eval::Term>{{0, piece.baseline_nll}, {1, targets}});
    model.add(std::vector<eval::Term>{{0, piece.nll}, {1, targets}});
    distance.push_back(piece.kl / targets);
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const eval::Divergence& against = *score.made.against;
  eval::OutputFigures figures{.samples = score.made.targets,
                              .sqnr_db = kNone,
                              .max_abs_error = kNone,
                              .cosine = kNone,
                              .least_cosine = kNone,
                              .rows = {}};
  figures.rows = {.are_distributions = false,
                  .agreement = 100 * against.same_top1.value,
                  .kl_mean = against.kl.value,
                  .kl_median = against.kl_median,
                  .kl_p90 = against.kl_p90,
                  .kl_p99 = against.kl_p99,
                  .kl_p999 = against.kl_p999,
                  .kl_largest = against.kl_largest};
  ModelEvaluation made{.model = score.model,
                       .metrics = {compare_metric(baseline, model, request.threads)},
                       .outputs = {{.name = "logits", .figures = figures}},
                       .worst = worst_samples(&baseline, &model, distance, request.worst)};
  made.conditions = hold(request.fail_if, made, 0);
  return made;
}

}  // namespace

EvaluateReport evaluate_language(const EvaluateRequest& request, Observer& observer) {
  if (request.data.size() != 1)
    throw usage_error(observer.spelled("data") + " takes one text for the task lm");
  if (!request.labels.empty())
    throw usage_error(observer.spelled("labels") + ": the task lm has none, its text says what comes next");
  check_conditions(request.fail_if, {kPerplexity}, {}, observer.spelled("fail_if"));
  const ScoreReport scores = score_text(read_tokenized_text(request.data[0], observer),
                                        {.models = request.models,
                                         .text = request.data[0],
                                         .baseline = request.baseline,
                                         .model_options = request.model_options,
                                         .context = request.context,
                                         .tokens = request.tokens,
                                         .threads = request.threads,
                                         .keeps_partial = true},
                                        "the baseline", observer);
  EvaluateReport report{.task = "lm",
                        .samples = scores.models.at(0).made.pieces.size(),
                        .samples_are = "pieces of at most 64 tokens",
                        .interrupted = scores.interrupted,
                        .first_metric = "perplexity",
                        .distance = "kl"};
  for (const ModelScore& score : scores.models) report.models.push_back(evaluation_of(score, request));
  return report;
}

}  // namespace crumb::jobs
