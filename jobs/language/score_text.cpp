#include "jobs/language/score_text.h"

#include <memory>

#include "base/files/text.h"
#include "jobs/language/scored_model.h"

namespace crumb::jobs {
namespace {

using Scored = std::unique_ptr<ScoredModel>;

std::vector<Scored> open_models(const ScoreRequest& request, Observer& observer) {
  if (request.models.empty()) throw usage_error("there is no model to score");
  const runtime::DecodingOptions how{
      .threads = request.threads,
      .promise = request.fast ? runtime::Promise::kFast : runtime::Promise::kExact,
      .context = request.context};
  std::vector<Scored> models;
  for (const std::string& path : request.models)
    models.push_back(
        std::make_unique<ScoredModel>(path, request.model_options, how, observer, request.strict));
  return models;
}

}  // namespace

ScoreReport score_text(const std::string& text, const ScoreRequest& request, const std::string& baseline_name,
                       Observer& observer) {
  const std::vector<Scored> models = open_models(request, observer);
  const runtime::LanguageModel& first = models[0]->model;
  const std::vector<text::TokenId> ids = scored_ids(first, text, request.tokens);
  eval::PerplexityOptions options{.context = request.context,
                                  .stride = request.stride,
                                  .score = request.score,
                                  .first_token = first.first_token(),
                                  .threads = request.threads,
                                  .progress = {}};
  const std::size_t targets = eval::count_targets(ids.size(), options);
  std::vector<eval::LogitsSource*> sources;
  for (const Scored& scored : models) {
    if (&scored->model != &first)
      check_alike(first, scored->model, quote_text(scored->name), text, ids, request.tokens);
    sources.push_back(&scored->logits);
  }
  Scored baseline;
  if (!request.baseline.empty()) {
    baseline = std::make_unique<ScoredModel>(
        request.baseline, ModelOptions{},
        runtime::DecodingOptions{.threads = request.threads, .context = request.context}, observer);
    check_alike(first, baseline->model, baseline_name, text, ids, request.tokens);
  }
  ScoreReport report;
  if (request.keeps_partial) options.interrupted = &report.interrupted;
  std::vector<eval::Perplexity> made;
  {
    const ProgressScope scope(observer);
    options.progress = [&](std::size_t done, std::size_t) {
      observer.progress({.what = "scoring", .items = "tokens", .done = done, .all = targets});
    };
    made = eval::measure_perplexity(ids, sources, baseline ? &baseline->logits : nullptr, options);
  }
  for (std::size_t i = 0; i < models.size(); ++i)
    report.models.push_back({models[i]->name, made[i], models[i]->not_finite()});
  return report;
}

}  // namespace crumb::jobs
