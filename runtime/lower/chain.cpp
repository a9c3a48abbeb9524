#include "runtime/lower/chain.h"

#include <algorithm>
#include <cmath>

namespace crumb::runtime {
namespace {

using Kind = ChainStep::Kind;

bool is_exact(double x) { return x == 0 || (std::fabs(x) > 0x1p-64 && std::fabs(x) < 0x1p64); }

/// A quotient of exact numbers; the denominator is positive.
struct Quotient {
  Expansion top, bottom{1.0};

  /// The sign of this number minus x.
  int compared_to(double x) const {
    Expansion other = bottom;
    other.multiply(x);
    return compare(top, std::move(other));
  }
};

}  // namespace

bool Chain::is_sound() const {
  constexpr std::size_t kMost = 12;  // operations, for which products stay far from the ends of double
  if (steps_.size() > kMost) return false;
  if (!std::ranges::all_of(
          factors_, [](double f) { return f != 0 && std::fabs(f) > 0x1p-128 && std::fabs(f) < 0x1p64; }))
    return false;
  return std::ranges::all_of(steps_, [&](const ChainStep& step) {
    const bool fits =
        step.kind == Kind::kClip || step.numbers.size() == 1 || step.numbers.size() == channels();
    const auto is_sound = [&](double x) {
      return is_exact(x) && (step.kind != Kind::kDivide || x != 0) && (step.kind != Kind::kLeaky || x >= 0);
    };
    const auto is_limit = [](double x) { return std::isinf(x) || is_exact(x); };
    return fits && std::ranges::all_of(step.numbers, is_sound) &&
           (step.kind != Kind::kClip || (is_limit(step.low) && is_limit(step.high) && step.low <= step.high));
  });
}

bool Chain::falls(std::size_t channel) const {
  bool falls = factors_[channel] < 0;
  for (const ChainStep& step : steps_) {
    const bool scales = step.kind == Kind::kMultiply || step.kind == Kind::kDivide;
    if (scales && step.number(channel) < 0) falls = !falls;
  }
  return falls;
}

bool Chain::reaches_exactly(std::size_t channel, std::int64_t sum, const UniformQuantizer& quantizer,
                            std::int32_t reached) const {
  Quotient v{.top = Expansion(factors_[channel])};
  v.top.multiply(static_cast<double>(sum));
  for (const ChainStep& step : steps_) {
    switch (step.kind) {
      case Kind::kAdd: {
        Expansion added = v.bottom;
        added.multiply(step.number(channel));
        v.top.add(added);
        break;
      }
      case Kind::kMultiply: v.top.multiply(step.number(channel)); break;
      case Kind::kDivide: {
        const double by = step.number(channel);
        v.bottom.multiply(std::fabs(by));
        if (by < 0) v.top.multiply(-1);
        break;
      }
      case Kind::kClip:
        if (!std::isinf(step.low) && v.compared_to(step.low) < 0) v = {.top = Expansion(step.low)};
        if (!std::isinf(step.high) && v.compared_to(step.high) > 0) v = {.top = Expansion(step.high)};
        break;
      case Kind::kLeaky:
        if (v.top.sign() < 0) v.top.multiply(step.number(channel));
        break;
    }
  }
  if (quantizer.bipolar) return v.top.sign() >= 0;
  // Compares v / scale + zero with the middle between two codes.
  const std::int32_t code = quantizer.low + reached;
  const std::int32_t above_zero = code - quantizer.zero;
  Expansion middle = v.bottom;
  middle.multiply(quantizer.scale);
  middle.multiply(above_zero - 0.5);
  const int sign = compare(v.top, std::move(middle));
  const bool is_even = (quantizer.ties_with_zero ? code : above_zero) % 2 == 0;
  return sign > 0 || (sign == 0 && is_even);
}

bool Chain::reaches(std::size_t channel, std::int64_t sum, const UniformQuantizer& quantizer,
                    std::int32_t reached) const {
  // Computes in doubles with a bound of the error; exactly where that does not decide.
  constexpr double kUnit = 0x1p-52;
  double v = factors_[channel] * static_cast<double>(sum), error = std::fabs(v) * kUnit;
  for (const ChainStep& step : steps_) {
    switch (step.kind) {
      case Kind::kAdd: v += step.number(channel); break;
      case Kind::kMultiply: v *= step.number(channel), error *= std::fabs(step.number(channel)); break;
      case Kind::kDivide: v /= step.number(channel), error /= std::fabs(step.number(channel)); break;
      case Kind::kClip: v = std::clamp(v, step.low, step.high); break;
      case Kind::kLeaky:
        if (v < 0) v *= step.number(channel);
        error *= std::max(1.0, step.number(channel));
        break;
    }
    error += std::fabs(v) * kUnit;
  }
  const double middle =
      quantizer.bipolar ? 0 : (quantizer.low + reached - quantizer.zero - 0.5) * quantizer.scale;
  error += std::fabs(middle) * kUnit;
  if (std::fabs(v - middle) > 4 * error) return v > middle;
  return reaches_exactly(channel, sum, quantizer, reached);
}

std::int32_t Chain::code(std::size_t channel, std::int64_t sum, const UniformQuantizer& quantizer) const {
  std::int32_t reached = 0;
  while (reached < quantizer.steps() && reaches_exactly(channel, sum, quantizer, reached + 1)) ++reached;
  return quantizer.code(reached);
}

std::vector<std::int32_t> Chain::thresholds(std::size_t channel, std::int32_t least, std::int32_t most,
                                            const UniformQuantizer& quantizer) const {
  const std::int64_t direction = falls(channel) ? -1 : 1;
  std::vector<std::int32_t> made;
  std::int64_t from = least, width = 0;
  for (std::int32_t reached = 1; reached <= quantizer.steps(); ++reached) {
    const auto is_there = [&](std::int64_t sum) {
      return reaches(channel, direction * sum, quantizer, reached);
    };
    if (from > most || !is_there(most)) {
      made.push_back(kNever);
      from = std::int64_t{most} + 1;
      continue;
    }
    std::int64_t low = from, high = most;  // the first sum that reaches it lies in [low, high]
    // Thresholds are mostly evenly spread: search from where the next one should be, in steps that double.
    bool was_there = true;
    for (std::int64_t probe = from + width, by = 1; low < high; by *= 2) {
      probe = std::clamp(probe, low, high - 1);
      const bool there = is_there(probe);
      (there ? high : low) = there ? probe : probe + 1;
      if (by > 1 && there != was_there) break;
      was_there = there;
      probe += there ? -by : by;
    }
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (is_there(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    made.push_back(low == least ? kAlways : static_cast<std::int32_t>(low));
    width = low - from;
    from = low;
  }
  return made;
}

}  // namespace crumb::runtime
