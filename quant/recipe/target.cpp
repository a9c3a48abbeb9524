#include "quant/recipe/target.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/files/text.h"
#include "base/text/byte_size.h"
#include "base/text/number.h"
#include "quant/accumulator/accumulator.h"
#include "quant/recipe/recipe.h"

namespace crumb {
namespace {

constexpr std::string_view kBits = "bpw", kOperations = "bops", kAccumulator = "acc";
constexpr double kMostOperations = 1e18;
constexpr int kLeastAccumulatorBits = 2;

/// Returns the text before the unit, in upper or lower case; nothing where the text does not end in the unit.
std::optional<std::string_view> before(std::string_view text, std::string_view unit) {
  if (text.size() < unit.size()) return std::nullopt;
  const bool ends = std::ranges::equal(text.substr(text.size() - unit.size()), unit,
                                       [](char found, char wanted) { return (found | 0x20) == wanted; });
  return ends ? std::optional(text.substr(0, text.size() - unit.size())) : std::nullopt;
}

/// Parses digits with at most one point among them, and blanks after them.
std::optional<double> plain_number(std::string_view text) {
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.find_first_not_of("0123456789.") != std::string_view::npos) return std::nullopt;
  return parse_number<double>(text);
}

Failure not_a_target(std::string_view text, const std::string& why) {
  return Failure{quote_text(text) + " is no target: " + why +
                 "; expected bits per weight, as in 3.5bpw, the file's size, as in 200MB, or of a network "
                 "bit operations, as in 2.5Gbops, or bits of accumulators, as in 16acc"};
}

Result<Target> bits_target(std::string_view text, std::string_view number) {
  while (number.ends_with(' ')) number.remove_suffix(1);
  if (number.empty() || number.find_first_not_of("0123456789.") != std::string_view::npos) {
    return not_a_target(text, "a number is expected before 'bpw', found " + quote_text(number));
  }
  const auto bits = parse_number<double>(number);
  if (!bits) return not_a_target(text, quote_text(number) + " is no number, or out of range");
  if (*bits <= 0) return not_a_target(text, "it must be more than 0");
  return Target{.bits_per_weight = *bits};
}

Result<Target> accumulator_target(std::string_view text, std::string_view number) {
  while (number.ends_with(' ')) number.remove_suffix(1);
  const auto bits = parse_number<int>(number);
  const bool is_plain = number.find_first_not_of("0123456789") == std::string_view::npos;
  if (!bits || !is_plain || *bits < kLeastAccumulatorBits || *bits > kMostAccumulatorBits) {
    return not_a_target(text, "a whole number from " + std::to_string(kLeastAccumulatorBits) + " to " +
                                  std::to_string(kMostAccumulatorBits) + " is expected before 'acc', found " +
                                  quote_text(number));
  }
  return Target{.accumulator_bits = *bits};
}

}  // namespace

std::optional<Result<uint64_t>> parse_operations(std::string_view text) {
  const auto found = before(text, kOperations);
  if (!found) return std::nullopt;
  std::string_view number = *found;
  double unit = 1;
  constexpr std::pair<char, double> kUnits[] = {{'k', 1e3}, {'m', 1e6}, {'g', 1e9}, {'t', 1e12}};
  for (const auto& [letter, factor] : kUnits) {
    if (number.empty() || (number.back() | 0x20) != letter) continue;
    unit = factor;
    number.remove_suffix(1);
    break;
  }
  const auto value = plain_number(number);
  if (!value) return Result<uint64_t>(Failure{"a number is expected before 'bops'"});
  const double operations = std::round(*value * unit);
  if (!(operations >= 1 && operations <= kMostOperations))
    return Result<uint64_t>(Failure{"it must be 1 to 10^18"});
  return Result<uint64_t>(static_cast<uint64_t>(operations));
}

Result<Target> parse_target(std::string_view text) {
  if (const auto number = before(text, kBits)) return bits_target(text, *number);
  if (const auto number = before(text, kAccumulator)) return accumulator_target(text, *number);
  if (const auto operations = parse_operations(text)) {
    if (!operations->ok()) return not_a_target(text, operations->failure().message);
    return Target{.bops = operations->value()};
  }
  const Result<uint64_t> bytes = parse_byte_size(text);
  if (!bytes.ok()) return not_a_target(text, "it is none of these");
  return Target{.file_bytes = bytes.value()};
}

namespace {

using ParseSpec = SpecOrKeep (*)(std::string_view);

std::vector<QuantSpec> parse_list(std::string_view text, ParseSpec parse, const std::string& keeps) {
  std::vector<QuantSpec> formats;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, comma - begin);
    const std::string prefix = "format " + std::to_string(formats.size() + 1) + ": ";
    if (part.empty()) throw usage_error(prefix + "found nothing, expected a spec, as in int4:group=128");
    SpecOrKeep spec;
    try {
      spec = parse(part);
    } catch (const Error& error) {
      throw usage_error(prefix + error.what());
    }
    if (!spec) throw usage_error(prefix + "found 'keep', expected a spec; " + keeps);
    if (std::ranges::find(formats, *spec) != formats.end()) {
      throw usage_error(prefix + quote_text(spec->to_string()) + " is there twice");
    }
    if (formats.size() == kMostFormats) {
      throw usage_error("found more than " + std::to_string(kMostFormats) + " formats");
    }
    formats.push_back(*spec);
    begin = comma + 1;
  }
  return formats;
}

}  // namespace

std::vector<QuantSpec> parse_formats(std::string_view text) {
  return parse_list(text, parse_spec_or_keep, "--exclude keeps tensors");
}

std::vector<QuantSpec> parse_activation_formats(std::string_view text) {
  return parse_list(text, parse_activations_or_keep, "--exclude keeps layers");
}

}  // namespace crumb
