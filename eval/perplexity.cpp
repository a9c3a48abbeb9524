#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/threads/parallel.h"
#include "eval/logit_row.h"
#include "eval/quantile.h"

namespace crumb::eval {
namespace {

/// Where windows begin, and which of their positions are scored: position i predicts token i + 1.
struct Windows {
  std::size_t context = 0, stride = 0, count = 0;
  Score score = Score::kAll;

  std::size_t first_position(std::size_t window) const {
    const std::size_t own = score == Score::kHalf ? context / 2 : 0;
    // The window before has scored up to its end, which lies context - stride behind this one's beginning.
    return window == 0 ? own : std::max(own, context - stride - (stride < context ? 1 : 0));
  }
  std::size_t positions(std::size_t window) const {
    return context - 1 - std::min(first_position(window), context - 1);
  }
  std::size_t targets() const { return positions(0) + (count - 1) * (count > 1 ? positions(1) : 0); }
};

Windows windows_of(std::size_t ids, const PerplexityOptions& options) {
  const std::size_t context = options.context, stride = options.stride == 0 ? context : options.stride;
  if (context < 2)
    throw Error("a context of " + std::to_string(context) + " tokens has no targets", ErrorKind::kUsage);
  if (stride > context)
    throw Error("a stride of " + std::to_string(stride) + " leaves out tokens between windows of " +
                    std::to_string(context),
                ErrorKind::kUsage);
  if (ids < context)
    throw Error("the text has " + std::to_string(ids) + " tokens, and a window takes " +
                    std::to_string(context) + ": give a longer text or a smaller context",
                ErrorKind::kUsage);
  const Windows windows{
      .context = context, .stride = stride, .count = 1 + (ids - context) / stride, .score = options.score};
  if (windows.targets() == 0)
    throw Error("a context of " + std::to_string(context) + " tokens has no targets in its second half",
                ErrorKind::kUsage);
  return windows;
}

Mean mean_of(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, values.size() > 1 ? std::sqrt(squares / (count - 1) / count) : 0};
}

struct TargetScores {
  std::vector<double> nll, baseline_nll, kl;
  std::vector<double> same;

  void keep(std::size_t targets) {
    for (auto* values : {&nll, &baseline_nll, &kl, &same}) values->resize(std::min(values->size(), targets));
  }
};

/// Of `count` targets, the ids behind the positions of the rows.
void score_targets(std::span<const std::int32_t> targets, std::span<const float> model,
                   std::span<const float> baseline, int threads, TargetScores& scores) {
  const std::size_t count = targets.size(), vocabulary = model.size() / count, at = scores.nll.size();
  scores.nll.resize(at + count);
  if (!baseline.empty()) {
    if (baseline.size() != model.size())
      throw Error("the model has " + std::to_string(vocabulary) + " logits, and the baseline " +
                  std::to_string(baseline.size() / count));
    for (auto* values : {&scores.baseline_nll, &scores.kl, &scores.same}) values->resize(at + count);
  }
  parallel_for(count, 1, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const LogitRow row(model.subspan(i * vocabulary, vocabulary));
      const auto target = static_cast<std::size_t>(targets[i]);
      scores.nll[at + i] = -row.log_probability(target);
      if (baseline.empty()) continue;
      const LogitRow other(baseline.subspan(i * vocabulary, vocabulary));
      scores.baseline_nll[at + i] = -other.log_probability(target);
      scores.kl[at + i] = divergence(other, row);
      scores.same[at + i] = other.largest == row.largest ? 1 : 0;
    }
  });
}

std::vector<TextPiece> pieces_of(const TargetScores& scores, const std::vector<std::size_t>& targets) {
  std::vector<TextPiece> made;
  std::size_t at = 0;
  for (const std::size_t count : targets) {
    TextPiece& piece = made.emplace_back(TextPiece{.targets = count});
    for (const std::size_t end = at + count; at < end; ++at) {
      piece.nll += scores.nll[at];
      if (scores.kl.empty()) continue;
      piece.baseline_nll += scores.baseline_nll[at];
      piece.kl += scores.kl[at];
    }
  }
  return made;
}

Divergence divergence_of(TargetScores& scores) {
  Divergence made{.kl = mean_of(scores.kl), .same_top1 = mean_of(scores.same)};
  std::ranges::sort(scores.kl);
  made.kl_median = quantile(scores.kl, 0.5);
  made.kl_p90 = quantile(scores.kl, 0.9);
  made.kl_p99 = quantile(scores.kl, 0.99);
  made.kl_p999 = quantile(scores.kl, 0.999);
  made.kl_largest = scores.kl.back();
  made.baseline_perplexity = std::exp(mean_of(scores.baseline_nll).value);
  for (std::size_t i = 0; i < scores.nll.size(); ++i)
    scores.baseline_nll[i] = scores.nll[i] - scores.baseline_nll[i];
  made.nll_added = mean_of(scores.baseline_nll);
  return made;
}

/// Scores what a window adds, piece by piece. `pieces` gets the targets of each that all models have scored.
void score_window(std::span<const std::int32_t> ids, const Windows& windows, std::size_t number,
                  std::span<LogitsSource* const> models, LogitsSource* baseline,
                  const PerplexityOptions& options, std::vector<TargetScores>& scores,
                  std::vector<std::size_t>& pieces) {
  const auto tokens = ids.subspan(number * windows.stride, windows.context);
  std::vector<std::int32_t> window(tokens.begin(), tokens.end() - 1);
  if (options.first_token) window[0] = *options.first_token;
  std::size_t position = windows.first_position(number);
  if (windows.positions(number) == 0) return;
  for (LogitsSource* const model : models) model->begin(window, position);
  if (baseline) baseline->begin(window, position);
  while (position < window.size()) {
    const std::size_t count = std::min(kPieceTargets, window.size() - position);
    const std::span<const float> expected = baseline ? baseline->next(count) : std::span<const float>();
    for (std::size_t m = 0; m < models.size(); ++m)
      score_targets(tokens.subspan(position + 1, count), models[m]->next(count), expected, options.threads,
                    scores[m]);
    position += count;
    pieces.push_back(count);
    if (options.progress) options.progress(scores[0].nll.size(), windows.targets());
  }
}

}  // namespace

std::size_t count_targets(std::size_t ids, const PerplexityOptions& options) {
  return windows_of(ids, options).targets();
}

std::vector<Perplexity> measure_perplexity(std::span<const std::int32_t> ids,
                                           std::span<LogitsSource* const> models, LogitsSource* baseline,
                                           const PerplexityOptions& options) {
  const Windows windows = windows_of(ids.size(), options);
  std::vector<TargetScores> scores(models.size());
  std::vector<std::size_t> pieces;  // their targets
  std::size_t begun = 0;            // windows
  try {
    for (; begun < windows.count; ++begun)
      score_window(ids, windows, begun, models, baseline, options, scores, pieces);
  } catch (const Interrupted&) {
    if (!options.interrupted || pieces.empty()) throw;
    *options.interrupted = true;
    const std::size_t whole = std::accumulate(pieces.begin(), pieces.end(), std::size_t{0});
    for (TargetScores& of_model : scores) of_model.keep(whole);
    ++begun;
  }
  std::vector<Perplexity> made;
  for (TargetScores& of_model : scores) {
    Perplexity& one = made.emplace_back(Perplexity{.windows = begun,
                                                   .targets = of_model.nll.size(),
                                                   .pieces = pieces_of(of_model, pieces),
                                                   .nll = mean_of(of_model.nll)});
    one.perplexity = std::exp(one.nll.value);
    one.standard_error = one.perplexity * one.nll.standard_error;
    if (baseline) one.against = divergence_of(of_model);
  }
  return made;
}

}  // namespace crumb::eval
