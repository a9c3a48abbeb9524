#include "eval/paired/paired_metric.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/split_mix.h"
#include "base/threads/parallel.h"
#include "eval/quantile.h"

namespace crumb::eval {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kTail = 0.025;  // of an interval at 95 %, on each side
constexpr std::size_t kMostGroups = 200;

/// Numbers of one stream, by SplitMix64.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t stream) : state_(split_mix(split_mix(seed) ^ stream)) {}
  std::uint64_t next() { return split_mix_of_state(state_ += kSplitMixStep); }
  /// Below `count`, which is below 2^32: the upper half of a product, even to 2^-32.
  std::uint32_t below(std::uint64_t count) {
    return static_cast<std::uint32_t>(((next() >> 32) * count) >> 32);
  }

 private:
  std::uint64_t state_;
};

double normal_share(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

/// Its inverse, by Newton's method, which comes nearer from one side: the share is concave above 0.
double normal_quantile(double share) {
  if (share < 0.5) return -normal_quantile(1 - share);
  constexpr double kRootOfTwoPi = 2.5066282746310002;
  constexpr int kMostSteps = 60;
  double z = 0;
  for (int i = 0; i < kMostSteps; ++i) {
    const double step = (share - normal_share(z)) * kRootOfTwoPi * std::exp(z * z / 2);
    if (!(step > 1e-15)) break;
    z += step;
  }
  return z;
}

/// Student's quantile by its expansion in 1 / freedom (Abramowitz and Stegun 26.7.5).
double student_quantile(double z, double freedom) {
  const double z3 = z * z * z, z5 = z3 * z * z;
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom);
}

class Comparison {
 public:
  Comparison(const PairedMetric& metric, const PairedOptions& options)
      : metric_(metric),
        options_(options),
        count_(metric.samples()),
        once_(count_, 1),
        baseline_(count_, 0),
        model_(count_, 1) {}

  PairedFigures figures() const {
    PairedFigures made{.baseline = metric_.value(once_, baseline_), .model = metric_.value(once_, model_)};
    made.difference = made.model - made.baseline;
    made.low = made.high = made.p = kUndefined;
    if (count_ < 2 || !std::isfinite(made.difference)) return made;
    set_interval(made);
    const std::optional<Discordant> discordant = metric_.discordant();
    made.p = discordant ? mcnemar(*discordant) : p_of_flips(made.difference);
    return made;
  }

 private:
  double difference_of(std::span<const std::uint32_t> times) const {
    return metric_.value(times, model_) - metric_.value(times, baseline_);
  }

  void set_interval(PairedFigures& made) const {
    std::vector<double> drawn(options_.resamples);
    constexpr std::size_t kTogether = 8;
    parallel_for(drawn.size(), kTogether, options_.threads, [&](std::size_t begin, std::size_t end) {
      std::vector<std::uint32_t> times(count_);
      for (std::size_t i = begin; i < end; ++i) {
        Draws draws(options_.seed, i);
        std::ranges::fill(times, 0U);
        for (std::size_t sample = 0; sample < count_; ++sample) ++times[draws.below(count_)];
        drawn[i] = difference_of(times);
      }
    });
    std::erase_if(drawn, [](double value) { return !std::isfinite(value); });
    if (drawn.size() * 2 <= options_.resamples) return;
    std::ranges::sort(drawn);
    const auto n = static_cast<double>(count_), all = static_cast<double>(drawn.size());
    const auto first = std::ranges::lower_bound(drawn, made.difference),
               last = std::ranges::upper_bound(drawn, made.difference);
    const double below = static_cast<double>(first - drawn.begin()) + static_cast<double>(last - first) / 2;
    const double bias = normal_quantile(std::clamp(below / all, 0.5 / all, 1 - 0.5 / all));
    const double reach = std::sqrt(n / (n - 1)) * student_quantile(normal_quantile(1 - kTail), n - 1);
    const double acceleration = acceleration_of();
    const auto end = [&](double z) {
      const double moved = bias + z, scale = 1 - acceleration * moved;
      return quantile(drawn, scale <= 0 ? (z < 0 ? 0 : 1) : normal_share(bias + moved / scale));
    };
    made.low = end(-reach);
    made.high = end(reach);
  }

  /// A sixth of the skewness of the differences without each group, the other way round.
  double acceleration_of() const {
    const std::size_t groups = std::min(count_, kMostGroups);
    std::vector<double> without(groups);
    parallel_for(groups, 1, options_.threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t group = begin; group < end; ++group) {
        std::vector<std::uint32_t> times = once_;
        for (std::size_t i = group; i < count_; i += groups) times[i] = 0;
        without[group] = difference_of(times);
      }
    });
    double mean = 0, squares = 0, cubes = 0;
    for (const double value : without) mean += value / static_cast<double>(groups);
    for (const double value : without) {
      const double away = mean - value;
      squares += away * away;
      cubes += away * away * away;
    }
    const double acceleration = cubes / (6 * squares * std::sqrt(squares));
    return std::isfinite(acceleration) ? acceleration : 0;
  }

  double p_of_flips(double difference) const {
    // Exchanges that differ by rounding alone are equal.
    const double least = std::abs(difference) * (1 - 1e-12);
    std::vector<std::uint8_t> as_large(options_.flips);
    constexpr std::size_t kTogether = 8;
    parallel_for(as_large.size(), kTogether, options_.threads, [&](std::size_t begin, std::size_t end) {
      std::vector<std::uint8_t> by_model(count_), by_other(count_);
      for (std::size_t i = begin; i < end; ++i) {
        Draws draws(~options_.seed, i);
        std::uint64_t bits = 0;
        for (std::size_t sample = 0; sample < count_; ++sample) {
          constexpr std::size_t kBits = 64;
          bits = sample % kBits == 0 ? draws.next() : bits >> 1;
          by_model[sample] = bits & 1;
          by_other[sample] = by_model[sample] ^ 1;
        }
        const double flipped = metric_.value(once_, by_other) - metric_.value(once_, by_model);
        as_large[i] = !(std::abs(flipped) < least);
      }
    });
    const auto found = std::ranges::count(as_large, std::uint8_t{1});
    return (1 + static_cast<double>(found)) / (1 + static_cast<double>(options_.flips));
  }

  const PairedMetric& metric_;
  const PairedOptions& options_;
  std::size_t count_;
  std::vector<std::uint32_t> once_;
  std::vector<std::uint8_t> baseline_, model_;
};

}  // namespace

PairedFigures compare_paired(const PairedMetric& metric, const PairedOptions& options) {
  return Comparison(metric, options).figures();
}

double mcnemar(const Discordant& discordant) {
  const auto [less, more] = std::minmax(discordant.baseline_alone, discordant.model_alone);
  const auto n = static_cast<double>(less + more);
  // The sum of binomial terms up to `less`, from the greatest, each of which is the one above it times
  // k / (n - k + 1).
  double sum = 0, term = 1;
  for (auto k = static_cast<double>(less); k >= 0 && term > 0; --k) {
    sum += term;
    term *= k / (n - k + 1);
  }
  const auto k = static_cast<double>(less);
  const double log_term =
      std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) - n * std::log(2.0);
  return std::min(1.0, 2 * sum * std::exp(log_term));
}

}  // namespace crumb::eval
