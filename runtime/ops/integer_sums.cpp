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
constexpr std::size_t kFewAlone = 16;  // one of so many channels may need more lines than those beside it

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
  const bool has_lines = finish.of_lines_.defined() && channels > 0 &&
                         finish.of_lines_.size() % (kNumbers * channels) == 0 &&
                         finish.of_lines_.size() / (kNumbers * channels) <= integer::kMostPieces;
  const bool is_sound =
      channels == 0 || (makes_codes ? finish.thresholds_.defined() || has_lines
                                    : has_each(finish.factors_, 1) && has_each(finish.shifts_, 1));
  if (!is_sound || (finish.of_lines_.defined() && !has_lines))
    facts.fail("it does not say what becomes of its sums");
  if (!makes_codes) return finish;
  finish.type_ = codes_type(facts.node);
  if (!is_byte(finish.type_)) facts.fail("its codes have no type of eight bits");
  finish.pieces_.resize(channels, 0);
  if (has_lines) finish.read_lines(channels);
  if (finish.thresholds_.defined()) {
    finish.steps_ = finish.thresholds_.size() / count;
  } else if (std::ranges::count(finish.pieces_, 0) > 0) {
    facts.fail("a channel has neither thresholds nor a line");
  }
  finish.choose_together();
  return finish;
}

void Finish::choose_together() {
  const auto needs_more = [this](std::uint8_t pieces) { return pieces > together_; };
  const auto few = static_cast<std::ptrdiff_t>(pieces_.size() / kFewAlone);
  while (std::ranges::count_if(pieces_, needs_more) > few) ++together_;
  for (std::size_t c = 0; c < pieces_.size(); ++c) {
    if (pieces_[c] == 0 || needs_more(pieces_[c])) alone_.push_back(c);
  }
}

void Finish::read_lines(std::size_t channels) {
  const double* const numbers = of_lines_.values<double>().data();
  lines_ = {.slopes = numbers,
            .offsets = numbers + channels,
            .least = numbers + 2 * channels,
            .most = numbers + 3 * channels,
            .magics = numbers + 4 * channels,
            .pieces = of_lines_.size() / (kNumbers * channels),
            .piece_stride = kNumbers * channels};
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t p = 0; p < lines_.pieces && lines_.magics[c] != 0; ++p) {
      const integer::Line line = lines_.at(p * lines_.piece_stride + c);
      const bool counts = p == 0 || line.most != 0 || line.least != 0;
      if (counts) pieces_[c] = static_cast<std::uint8_t>(p + 1);
    }
  }
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
      integer::count_thresholds({steps_of, steps_}, own.data(), own.size(), reached);
    }
    for (std::size_t i = 0; i < own.size(); ++i)
      codes[at + i] = static_cast<std::uint8_t>(from + by * reached[i]);
  }
}

void Finish::put_codes(Channels channels, std::size_t channel, std::span<const std::int32_t> sums,
                       std::uint8_t* codes) const {
  if (channels == Channels::kOne) {
    if (pieces_[channel] == 0) return count_steps(channel, sums, codes);
    integer::Lines lines = lines_.from(channel);
    lines.pieces = pieces_[channel];
    return integer::codes_by_lines(channels, lines, low_, sums.data(), sums.size(), codes);
  }
  if (together_ > 0) {
    integer::Lines lines = lines_.from(channel);
    lines.pieces = together_;
    integer::codes_by_lines(channels, lines, low_, sums.data(), sums.size(), codes);
  }
  for (auto at = std::ranges::lower_bound(alone_, channel); at != alone_.end(); ++at) {
    const std::size_t i = *at - channel;
    if (i >= sums.size()) break;
    put_codes(Channels::kOne, *at, sums.subspan(i, 1), codes + i);
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
