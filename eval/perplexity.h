// How well a language model predicts a text: perplexity, and how far its predictions are from another
// model's.
//
// The text's tokens are cut into windows of `context`, which begin every `stride` tokens; each window is run
// by itself. A target is a token that is predicted from those before it in its window: "all" scores every
// target, "half" those of the window's second half (the last context - context / 2 - 1, llama.cpp's way),
// both only those that no window before has scored. Tokens behind the last whole window are left out. With a
// first token (a model that wants its texts to begin with one), it stands in each window in the first token's
// position.
//
//   nll         -log softmax(logits)[target], in float64
//   perplexity  exp(mean nll); its standard error is that of the mean (sample deviation / sqrt(n)) times the
//               perplexity
//   KL          of a target, the sum over the vocabulary of p log(p / q), p being the baseline's
//               probabilities, in nats
//
// Windows that overlap make targets depend on each other, so the error is an underestimate then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace crumb::eval {

/// Gives logits of windows of tokens.
class LogitsSource {
 public:
  virtual ~LogitsSource() = default;
  /// A window, of whose positions before `first` no logits will be asked. The ids live until the next.
  virtual void begin(std::span<const std::int32_t> window, std::size_t first) = 0;
  /// Those of the next `count` positions, [count, vocabulary]; they live until the next call.
  virtual std::span<const float> next(std::size_t count) = 0;
};

enum class Score : std::uint8_t { kAll, kHalf };

struct PerplexityOptions {
  std::size_t context = 1024;
  std::size_t stride = 0;  ///< 0: context
  Score score = Score::kAll;
  std::optional<std::int32_t> first_token;
  int threads = 0;  ///< 0: those that the machine has; never changes a number
  /// Targets that are scored, and all.
  std::function<void(std::size_t done, std::size_t all)> progress;
  /// Where a person asks to stop (base/files/interrupt.h) and the first targets are scored: the figures are
  /// of those, and this is set; without it, Interrupted is thrown.
  bool* interrupted = nullptr;
};

struct Mean {
  double value = 0, standard_error = 0;
};

/// Against a baseline, over the same targets.
struct Divergence {
  Mean kl;
  double kl_median = 0, kl_p90 = 0, kl_p99 = 0, kl_p999 = 0, kl_largest = 0;
  Mean same_top1;  ///< share of targets whose most probable token is the same (the lowest id of equal ones)
  Mean nll_added;  ///< the model's nll less the baseline's, target by target
  double baseline_perplexity = 0;
};

/// Sums over targets that follow each other, at most kPieceTargets of one window.
struct TextPiece {
  std::size_t targets = 0;
  double nll = 0, baseline_nll = 0, kl = 0;  ///< the last two 0 without a baseline
};
inline constexpr std::size_t kPieceTargets = 64;

struct Perplexity {
  std::size_t windows = 0, targets = 0;
  std::vector<TextPiece> pieces;  ///< in the order of the text
  Mean nll;
  double perplexity = 0, standard_error = 0;
  std::optional<Divergence> against;
};

/// Of each model in turn, window by window, so that the baseline is run once for all of them. Memory: 32
/// bytes a target and model beside a window's and what the sources have. Throws Error(kUsage) where the text
/// is shorter than a window or the options make no sense; Error where a logit is NaN, and where models have
/// not as many logits as the baseline.
std::vector<Perplexity> measure_perplexity(std::span<const std::int32_t> ids,
                                           std::span<LogitsSource* const> models, LogitsSource* baseline,
                                           const PerplexityOptions& options);

/// Of one.
inline Perplexity measure_perplexity(std::span<const std::int32_t> ids, LogitsSource& model,
                                     LogitsSource* baseline, const PerplexityOptions& options) {
  LogitsSource* const models[] = {&model};
  return measure_perplexity(ids, models, baseline, options)[0];
}

/// Targets that it will score. Throws as measure_perplexity does.
std::size_t count_targets(std::size_t ids, const PerplexityOptions& options);

}  // namespace crumb::eval
