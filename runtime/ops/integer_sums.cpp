#include "runtime/ops/integer_sums.h"

#include <algorithm>
#include <type_traits>

#include "runtime/lower/chain.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kWork = std::size_t{1} << 18;  // multiplications that are worth a thread
constexpr std::size_t kFewSteps = 24;                // so many thresholds are compared one by one

template <class T>
std::vector<T> constant_values(const NodeFacts& facts, std::size_t i) {
  const Array* constant = facts.constant(i);
  if (!constant) return {};
  const auto all = constant->values<T>();
  return {all.begin(), all.end()};
}

/// Writes element i to out[i * stride].
void put_floats(const Finish& finish, std::size_t channel, std::span<const std::int32_t> sums, float* out,
                std::size_t stride) {
  const double factor = finish.factors[channel], shift = finish.shifts[channel];
  for (std::size_t i = 0; i < sums.size(); ++i)
    out[i * stride] = static_cast<float>(static_cast<double>(sums[i]) * factor + shift);
}

template <class T>
void put_codes(const Finish& finish, std::size_t channel, std::span<const std::int32_t> sums, T* out,
               std::size_t stride) {
  std::int32_t reached[kRowsAtATime] = {};
  const std::int32_t* const steps_of = finish.thresholds.data() + channel * finish.steps;
  if (finish.steps <= kFewSteps) {
    for (std::size_t t = 0; t < finish.steps; ++t) {
      const std::int32_t threshold = steps_of[t];
      for (std::size_t i = 0; i < sums.size(); ++i) reached[i] += sums[i] >= threshold ? 1 : 0;
    }
  } else {
    const Guess guess = finish.guesses[channel];
    for (std::size_t i = 0; i < sums.size(); ++i) reached[i] = guess.reached(sums[i], steps_of, finish.steps);
  }
  const std::int32_t by = finish.bipolar ? 2 : 1, from = finish.bipolar ? -1 : finish.low;
  for (std::size_t i = 0; i < sums.size(); ++i) out[i * stride] = static_cast<T>(from + by * reached[i]);
}

}  // namespace

ElementType codes_type(const NodeFacts& facts) {
  return graph::element_type_of(facts.int_or("type", 0)).value_or(ElementType::kUnknown);
}

Guess Guess::of(std::span<const std::int32_t> thresholds) {
  const auto is_real = [](std::int32_t t) { return t != kAlways && t != kNever; };
  const auto first = std::ranges::find_if(thresholds, is_real);
  const auto behind = std::find_if_not(first, thresholds.end(), is_real);
  Guess guess{.at = static_cast<float>(first - thresholds.begin())};
  if (behind - first < 2) return guess;
  guess.from = static_cast<float>(*first);
  guess.slope =
      static_cast<float>(behind - first - 1) / std::max(1.0F, static_cast<float>(behind[-1]) - guess.from);
  return guess;
}

std::int32_t Guess::reached(std::int32_t sum, const std::int32_t* thresholds, std::size_t count) const {
  const float near = at + (static_cast<float>(sum) - from) * slope;
  auto k = static_cast<std::int32_t>(std::clamp(near, 0.0F, static_cast<float>(count)));
  while (k < static_cast<std::int32_t>(count) && sum >= thresholds[k]) ++k;
  while (k > 0 && sum < thresholds[k - 1]) --k;
  return k;
}

Finish Finish::of(const NodeFacts& facts) {
  Finish finish{.factors = constant_values<double>(facts, 2),
                .shifts = constant_values<double>(facts, 3),
                .thresholds = constant_values<std::int32_t>(facts, 4),
                .low = static_cast<std::int32_t>(facts.int_or("low", 0)),
                .bipolar = facts.int_or("bipolar", 0) != 0};
  if (facts.constant(4)) {
    finish.steps = static_cast<std::size_t>(facts.constant(4)->dim(1));
    finish.type = codes_type(facts);
  }
  for (std::size_t at = 0; finish.steps > kFewSteps && at < finish.thresholds.size(); at += finish.steps)
    finish.guesses.push_back(Guess::of(std::span(finish.thresholds).subspan(at, finish.steps)));
  return finish;
}

void Finish::put(std::size_t first, std::size_t channels, const std::int32_t* sums, std::size_t rows,
                 Array& made, std::size_t at, std::size_t channel_stride, std::size_t row_stride) const {
  const auto each = [&]<class T>(T* out) {
    for (std::size_t c = 0; c < channels; ++c) {
      const std::span<const std::int32_t> own(sums + c * kRowsAtATime, rows);
      T* const to = out + at + c * channel_stride;
      if constexpr (std::is_same_v<T, float>) {
        put_floats(*this, first + c, own, to, row_stride);
      } else {
        put_codes(*this, first + c, own, to, row_stride);
      }
    }
  };
  if (type == ElementType::kFloat) return each(made.writable<float>().data());
  if (made.carrier() == Carrier::kUint8) return each(made.writable<std::uint8_t>().data());
  each(made.writable<std::int8_t>().data());
}

int threads_for(const Call& call, std::size_t work) { return work <= kWork ? 1 : call.threads(); }

}  // namespace crumb::runtime
