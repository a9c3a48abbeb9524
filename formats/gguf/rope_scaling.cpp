#include "formats/gguf/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace crumb {
namespace {

constexpr double kTolerance = 2e-5;  // relative; the tensor was computed in float32

double frequency(double theta, std::size_t i, std::size_t count) {
  return std::pow(theta, -static_cast<double>(i) / static_cast<double>(count));
}

double turns_in_context(const Llama3Scaling& scaling, double theta, std::size_t i, std::size_t count) {
  return static_cast<double>(scaling.context) * frequency(theta, i, count) / (2 * std::numbers::pi);
}

bool makes(const Llama3Scaling& scaling, double theta, std::span<const float> factors) {
  if (!(scaling.low > 0) || !(scaling.high > scaling.low)) return false;
  const std::vector<double> made = llama3_factors(scaling, theta, factors.size());
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const auto factor = static_cast<double>(factors[i]);
    if (!(std::abs(made[i] - factor) <= kTolerance * factor)) return false;
  }
  return true;
}

/// To the nearest eighth, where it is near one.
double tidy(double value) {
  const double eighth = std::round(value * 8) / 8;
  return std::abs(eighth - value) <= 1e-3 * std::abs(value) ? eighth : value;
}

}  // namespace

std::vector<double> llama3_factors(const Llama3Scaling& scaling, double theta, std::size_t count) {
  std::vector<double> factors(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double kept = share_kept(scaling, 2 * std::numbers::pi / frequency(theta, i, count));
    factors[i] = kept == 1 ? 1 : kept == 0 ? scaling.factor : 1 / ((1 - kept) / scaling.factor + kept);
  }
  return factors;
}

std::optional<Llama3Scaling> find_llama3_scaling(std::span<const float> factors, double theta) {
  if (factors.empty() || !(theta > 1) || !std::isfinite(theta)) return std::nullopt;
  Llama3Scaling scaling;
  scaling.factor = static_cast<double>(*std::ranges::max_element(factors));
  if (!(scaling.factor >= 1) || !std::isfinite(scaling.factor)) return std::nullopt;
  if (makes(scaling, theta, factors)) return scaling;

  // In between, 1 / factor is linear in the turns: two places give the line.
  std::size_t first = factors.size(), last = 0;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const auto factor = static_cast<double>(factors[i]);
    if (!(factor > 1 + 1e-6) || !(factor < scaling.factor * (1 - 1e-6))) continue;
    first = std::min(first, i);
    last = i;
  }
  if (first >= last) return std::nullopt;
  const auto smooth = [&](std::size_t i) {
    return (1 / static_cast<double>(factors[i]) - 1 / scaling.factor) / (1 - 1 / scaling.factor);
  };
  const double turns_first = turns_in_context(scaling, theta, first, factors.size());
  const double turns_last = turns_in_context(scaling, theta, last, factors.size());
  const double width = (turns_first - turns_last) / (smooth(first) - smooth(last));
  scaling.low = tidy(turns_last - smooth(last) * width);
  scaling.high = tidy(scaling.low + width);
  return makes(scaling, theta, factors) ? std::optional(scaling) : std::nullopt;
}

}  // namespace crumb
