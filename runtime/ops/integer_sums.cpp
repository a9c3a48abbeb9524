#include "runtime/ops/integer_sums.h"

#include <algorithm>

#include "runtime/ops/code_scale.h"

namespace crumb::runtime {
namespace {

using integer::Channels;
using integer::kAlways;
using integer::kNever;

constexpr std::size_t kWork = std::size_t{1} << 21;  // multiplications that are worth a thread
constexpr std::size_t kFewSteps = 24;                // so many thresholds are compared one by one
constexpr std::size_t kNumbers = 5;                  // of a line

/// Input i, where the node has it; it must be a constant of this type and shape.
Array constant_of(const NodeFacts& facts, std::size_t i, ElementType type, std::size_t count) {
  if (i >= facts.node.inputs.size() || facts.node.inputs[i].empty()) return {};
  const Array* constant = facts.constant(i);
  if (!constant || constant->type() != type || constant->rank() < 1 || constant->size() % count != 0 ||
      constant->size() == 0)
    facts.fail("its input " + std::to_string(i) + " is none of a product of integers");
  return *constant;
}

}  // namespace

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

Finish Finish::of(const NodeFacts& facts, std::size_t channels) {
  const std::size_t count = std::max<std::size_t>(channels, 1);
  Finish finish;
  finish.low_ = static_cast<std::int32_t>(facts.int_or("low", 0));
  finish.bipolar_ = facts.int_or("bipolar", 0) != 0;
  finish.factors_ = constant_of(facts, 2, ElementType::kDouble, count);
  finish.shifts_ = constant_of(facts, 3, ElementType::kDouble, count);
  finish.thresholds_ = constant_of(facts, 4, ElementType::kInt32, count);
  finish.of_lines_ = constant_of(facts, 5, ElementType::kDouble, count);
  const bool makes_codes = facts.node.has("type");
  const auto has_each = [&](const Array& array, std::size_t of_each) {
    return array.defined() && array.size() == channels * of_each;
  };
  const bool is_sound =
      channels == 0 || (makes_codes ? finish.thresholds_.defined() || has_each(finish.of_lines_, kNumbers)
                                    : has_each(finish.factors_, 1) && has_each(finish.shifts_, 1));
  if (!is_sound || (finish.of_lines_.defined() && !has_each(finish.of_lines_, kNumbers)))
    facts.fail("it does not say what becomes of its sums");
  if (!makes_codes) return finish;
  finish.type_ = codes_type(facts.node);
  if (!is_byte(finish.type_)) facts.fail("its codes have no type of eight bits");
  if (finish.of_lines_.defined()) {
    const double* const numbers = finish.of_lines_.values<double>().data();
    finish.lines_ = {numbers, numbers + channels, numbers + 2 * channels, numbers + 3 * channels,
                     numbers + 4 * channels};
    finish.all_lines_ = std::all_of(finish.lines_.magics, finish.lines_.magics + channels,
                                    [](double magic) { return magic != 0; });
  }
  if (!finish.thresholds_.defined()) {
    if (!finish.all_lines_ && channels > 0) facts.fail("a channel has neither thresholds nor a line");
    return finish;
  }
  finish.steps_ = finish.thresholds_.size() / count;
  for (std::size_t c = 0; finish.steps_ > kFewSteps && c < channels; ++c)
    finish.guesses_.push_back(
        Guess::of(finish.thresholds_.values<std::int32_t>().subspan(c * finish.steps_, finish.steps_)));
  return finish;
}

void Finish::count_steps(std::size_t channel, std::span<const std::int32_t> sums, std::uint8_t* codes) const {
  const std::int32_t* const steps_of = thresholds_.values<std::int32_t>().data() + channel * steps_;
  const std::int32_t by = bipolar_ ? 2 : 1, from = bipolar_ ? -1 : low_;
  constexpr std::size_t kPiece = 64;
  for (std::size_t at = 0; at < sums.size(); at += kPiece) {
    const auto own = sums.subspan(at, std::min(kPiece, sums.size() - at));
    std::int32_t reached[kPiece] = {};
    if (steps_ <= kFewSteps) {
      for (std::size_t t = 0; t < steps_; ++t) {
        const std::int32_t threshold = steps_of[t];
        for (std::size_t i = 0; i < own.size(); ++i) reached[i] += own[i] >= threshold ? 1 : 0;
      }
    } else {
      const Guess guess = guesses_[channel];
      for (std::size_t i = 0; i < own.size(); ++i) reached[i] = guess.reached(own[i], steps_of, steps_);
    }
    for (std::size_t i = 0; i < own.size(); ++i)
      codes[at + i] = static_cast<std::uint8_t>(from + by * reached[i]);
  }
}

void Finish::put_codes(Channels channels, std::size_t channel, std::span<const std::int32_t> sums,
                       std::uint8_t* codes) const {
  if (channels == Channels::kOne) {
    if (!has_line(channel)) return count_steps(channel, sums, codes);
    return integer::codes_by_lines(channels, lines_.from(channel), low_, sums.data(), sums.size(), codes);
  }
  if (lines_.magics)
    integer::codes_by_lines(channels, lines_.from(channel), low_, sums.data(), sums.size(), codes);
  for (std::size_t i = 0; !all_lines_ && i < sums.size(); ++i) {
    if (!has_line(channel + i)) count_steps(channel + i, sums.subspan(i, 1), codes + i);
  }
}

void Finish::put(Channels channels, std::size_t channel, std::span<const std::int32_t> sums, Array& made,
                 std::size_t at) const {
  if (sums.empty()) return;
  if (type_ == ElementType::kFloat) {
    return integer::floats_of(channels, factors_.values<double>().data() + channel,
                              shifts_.values<double>().data() + channel, sums.data(), sums.size(),
                              made.writable<float>().data() + at);
  }
  put_codes(channels, channel, sums, reinterpret_cast<std::uint8_t*>(made.writable_data()) + at);
}

int threads_for(const Call& call, std::size_t work) { return work <= kWork ? 1 : call.threads(); }

}  // namespace crumb::runtime
