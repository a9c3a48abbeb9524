// The grammar of specs: what parses is printed and parses to the same; nothing but a usage error is thrown.
#include <optional>

#include "quant/quant_spec.h"
#include "tests/fuzz/fuzz.h"

namespace crumb::testing {
namespace {

template <class Parse>
std::optional<QuantSpec> parse_or_refuse(Parse parse, std::string_view text) {
  try {
    return parse(text);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kUsage && *error.what() != '\0', "a bad spec is a usage error");
    return std::nullopt;
  }
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  if (input.size() < 12) parse_or_refuse(parse_scheme, text_of(input));
  const std::optional<QuantSpec> spec = parse_or_refuse(QuantSpec::parse, text_of(input));
  if (!spec) return;
  require(spec->number != nullptr, "a spec has a number format");
  const std::string printed = spec->to_string();
  const std::optional<QuantSpec> again = parse_or_refuse(QuantSpec::parse, printed);
  require(again == spec && again->to_string() == printed, "parse(print(spec)) is the spec: " + printed);

  const std::vector<std::vector<uint64_t>> shapes = {{}, {0}, {7}, {3, 32}, {5, 33}, {2, 0}, {4, 3, 2, 2}};
  for (const std::vector<uint64_t>& shape : shapes) {
    if (spec->misfit(shape)) continue;
    require(is_ok(encoded_layout(spec->encoding(shape), shape)), "a spec that fits has a layout");
  }
}

}  // namespace crumb::testing
