// The sums of one layer.
#include <algorithm>

#include "analysis/accumulator/layers.h"
#include "base/files/text.h"

namespace crumb::analysis {
namespace {

/// So many terms, each from term.low to term.high or absent, and a start.
std::optional<WorstSums> sums_of_terms(std::size_t count, IntegerRange term, std::int64_t start) {
  const IntegerRange one = term.with_zero();
  WorstSums sums;
  const auto terms = static_cast<std::int64_t>(count);
  if (terms < 0 || __builtin_mul_overflow(terms, one.high, &sums.max) ||
      __builtin_mul_overflow(terms, one.low, &sums.min)) {
    return {};
  }
  std::int64_t& further = start > 0 ? sums.max : sums.min;
  if (__builtin_add_overflow(further, start, &further)) return {};
  return sums;
}

}  // namespace

std::string ProductLayer::text() const {
  return "layer " + quote_text(name) + " (" + op + (operands.empty() ? "" : ", " + operands) + ")";
}

std::vector<std::uint32_t> ProductLayer::registers(std::size_t channel, std::size_t tile) const {
  std::vector<std::uint32_t> numbers(length);
  std::map<std::pair<std::uint32_t, std::size_t>, std::uint32_t> met;
  for (std::size_t i = 0; i < length; ++i) {
    const std::pair key(part.empty() ? 0 : part[channel * length + i], tile == 0 ? 0 : i / tile);
    numbers[i] = met.emplace(key, static_cast<std::uint32_t>(met.size())).first->second;
  }
  return numbers;
}

std::vector<std::int64_t> ProductLayer::starts(std::size_t channel, std::size_t tile) const {
  const std::vector<std::uint32_t> number = registers(channel, tile);
  std::vector<std::int64_t> all(number.empty() ? 1 : std::ranges::max(number) + 1, 0);
  if (bias_codes.empty()) return all;
  if (number.empty()) all[0] = bias_codes[channel];
  std::vector<bool> met;
  for (std::size_t i = 0; i < number.size(); ++i) {
    const std::uint32_t of = part.empty() ? 0 : part[channel * length + i];
    if (of >= met.size()) met.resize(of + 1, false);
    if (!met[of]) all[number[i]] = bias_codes[channel];
    met[of] = true;
  }
  return all;
}

std::optional<std::vector<graph::ChannelSums>> ProductLayer::worst_sums(IntegerRange range,
                                                                        std::size_t tile) const {
  std::vector<graph::ChannelSums> all(channels);
  for (std::size_t c = 0; c < channels && part.empty(); ++c) {
    const auto row = std::span(codes).subspan(c * length, length);
    auto sums = worst_sums_of_tiles(row, tile, range, bias_codes.empty() ? 0 : bias_codes[c]);
    if (!sums) return {};
    all[c] = std::move(*sums);
  }
  for (std::size_t c = 0; c < channels && !part.empty(); ++c) {
    const auto number = registers(c, tile);
    const auto start = starts(c, tile);
    std::vector<std::vector<std::int64_t>> rows(start.size());
    for (std::size_t i = 0; i < length; ++i) rows[number[i]].push_back(codes[c * length + i]);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto sums = crumb::worst_sums(rows[r], range, start[r]);
      if (!sums) return {};
      all[c].push_back(*sums);
    }
  }
  return all;
}

std::optional<std::vector<graph::ChannelSums>> ProductLayer::worst_sums(std::size_t tile) const {
  if (!term) {
    auto all = worst_sums(input_cases.empty() ? input_range.value() : input_cases[0], tile);
    for (std::size_t i = 1; i < input_cases.size() && all; ++i) {
      const auto more = worst_sums(input_cases[i], tile);
      if (!more) return {};
      for (std::size_t c = 0; c < all->size(); ++c) {
        for (std::size_t r = 0; r < (*all)[c].size(); ++r) {
          WorstSums &sums = (*all)[c][r], other = (*more)[c][r];
          sums = {std::max(sums.max, other.max), std::min(sums.min, other.min)};
        }
      }
    }
    return all;
  }
  std::vector<graph::ChannelSums> all;
  for (std::size_t c = 0; c < channels; ++c) {
    const auto sums = sums_of_terms(length, *term, bias_codes.empty() ? 0 : bias_codes[c]);
    if (!sums) return {};
    all.push_back({*sums});
  }
  return all;
}

}  // namespace crumb::analysis
