#include "quant/recipe/training.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/text/number.h"
#include "quant/accumulator/accumulator.h"

namespace crumb {
namespace {

constexpr std::string_view kMethodNames[] = {"a2q", "a2q_plus"};  // indexed by Method
constexpr std::string_view kScalesNames[] = {"learned", "statistics", "weight_norm",
                                             "mean"};  // as WeightScales

}  // namespace

int parse_accumulator_bits(std::string_view text) {
  const auto bits = parse_number<int>(text);
  if (!bits || *bits < 2 || *bits > kMostAccumulatorBits) {
    throw usage_error("expected the bits of a register, 2 to " + std::to_string(kMostAccumulatorBits) +
                      ", as in 16:a2q_plus, or none, found " + quote_text(text));
  }
  return *bits;
}

int parse_accumulator_tile(std::string_view text) {
  const auto tile = parse_number<int>(text);
  if (!tile || *tile < 1) {
    throw usage_error("expected a number of products as the tile, as in tile=64, found " + quote_text(text));
  }
  return *tile;
}

std::string_view name_of(AccumulatorGoal::Method method) { return kMethodNames[static_cast<size_t>(method)]; }

AccumulatorGoal::Method parse_accumulator_method(std::string_view text) {
  const auto found = std::ranges::find(kMethodNames, text);
  if (found == std::end(kMethodNames)) {
    throw usage_error("expected a2q or a2q_plus, found " + quote_text(text) + "; did you mean '" +
                      nearest_name(text, kMethodNames) + "'?");
  }
  return static_cast<AccumulatorGoal::Method>(found - std::begin(kMethodNames));
}

std::optional<AccumulatorGoal> parse_accumulator(std::string_view text) {
  if (text == "none") return std::nullopt;
  AccumulatorGoal goal;
  bool has_method = false, has_tile = false;
  for (size_t part = 0, begin = 0; begin <= text.size(); ++part) {
    const size_t end = std::min(text.find(':', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (part == 0) {
      goal.bits = parse_accumulator_bits(word);
    } else if (word.starts_with("tile=") && !has_tile) {
      goal.tile = parse_accumulator_tile(word.substr(5));
      has_tile = true;
    } else if (!has_method && !has_tile) {
      goal.method = parse_accumulator_method(word);
      has_method = true;
    } else {
      throw usage_error("expected BITS:METHOD or BITS:METHOD:tile=N, found " + quote_text(text));
    }
  }
  return goal;
}

std::string to_string(const std::optional<AccumulatorGoal>& goal) {
  if (!goal) return "none";
  std::string text = std::to_string(goal->bits) + ":" + std::string(name_of(goal->method));
  if (goal->tile > 0) text += ":tile=" + std::to_string(goal->tile);
  return text;
}

WeightScales parse_weight_scales(std::string_view text) {
  const auto found = std::ranges::find(kScalesNames, text);
  if (found == std::end(kScalesNames)) {
    throw usage_error("expected learned, statistics, weight_norm or mean, found " + quote_text(text) +
                      "; did you mean '" + nearest_name(text, kScalesNames) + "'?");
  }
  return static_cast<WeightScales>(found - std::begin(kScalesNames));
}

std::string_view name_of(WeightScales scales) { return kScalesNames[static_cast<size_t>(scales)]; }

}  // namespace crumb
