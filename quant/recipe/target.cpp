#include "quant/recipe/target.h"

#include <algorithm>
#include <cmath>

#include "base/files/text.h"
#include "base/text/byte_size.h"
#include "base/text/number.h"
#include "quant/recipe/recipe.h"

namespace crumb {
namespace {

constexpr std::string_view kBits = "bpw";

bool ends_with_bits(std::string_view text) {
  if (text.size() < kBits.size()) return false;
  return std::ranges::equal(text.substr(text.size() - kBits.size()), kBits,
                            [](char found, char wanted) { return (found | 0x20) == wanted; });
}

Failure not_a_target(std::string_view text, const std::string& why) {
  return Failure{quote_text(text) + " is no target: " + why +
                 "; expected bits per weight, as in 3.5bpw, or the file's size, as in 200MB"};
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  if (!ends_with_bits(text)) {
    const Result<uint64_t> bytes = parse_byte_size(text);
    if (!bytes.ok()) return not_a_target(text, "it is neither of the two");
    return Target{.file_bytes = bytes.value()};
  }
  std::string_view number = text.substr(0, text.size() - kBits.size());
  while (number.ends_with(' ')) number.remove_suffix(1);
  if (number.empty() || number.find_first_not_of("0123456789.") != std::string_view::npos) {
    return not_a_target(text, "a number is expected before 'bpw', found " + quote_text(number));
  }
  const auto bits = parse_number<double>(number);
  if (!bits) return not_a_target(text, quote_text(number) + " is no number, or out of range");
  if (*bits <= 0) return not_a_target(text, "it must be more than 0");
  return Target{.bits_per_weight = *bits};
}

std::vector<QuantSpec> parse_formats(std::string_view text) {
  std::vector<QuantSpec> formats;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, comma - begin);
    const std::string place = "format " + std::to_string(formats.size() + 1) + ": ";
    if (part.empty()) throw usage_error(place + "found nothing, expected a spec, as in int4:group=128");
    SpecOrKeep spec;
    try {
      spec = parse_spec_or_keep(part);
    } catch (const Error& error) {
      throw usage_error(place + error.what());
    }
    if (!spec) throw usage_error(place + "found 'keep', expected a spec; --exclude keeps tensors");
    if (std::ranges::find(formats, *spec) != formats.end()) {
      throw usage_error(place + quote_text(spec->to_string()) + " is there twice");
    }
    if (formats.size() == kMostFormats) {
      throw usage_error("found more than " + std::to_string(kMostFormats) + " formats");
    }
    formats.push_back(*spec);
    begin = comma + 1;
  }
  return formats;
}

}  // namespace crumb
