#include "formats/gguf/split.h"

#include <algorithm>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/text/number.h"
#include "formats/gguf/fields.h"

namespace crumb {
namespace {

constexpr const char *kNumber = "split.no", *kCount = "split.count", *kTensors = "split.tensors.count";
constexpr std::string_view kBetween = "-of-", kEnd = ".gguf";
constexpr std::size_t kDigits = 5;
constexpr std::uint64_t kMostParts = 99999;

std::string digits(std::uint64_t number) {
  const std::string text = std::to_string(number);
  return std::string(kDigits - std::min(kDigits, text.size()), '0') + text;
}

/// "NAME-" of "NAME-00001-of-00003.gguf".
std::optional<std::string> split_stem(const std::string& name, std::uint64_t count) {
  const std::string end = std::string(kBetween) + digits(count) + std::string(kEnd);
  if (name.size() <= end.size() + kDigits || !name.ends_with(end)) return std::nullopt;
  const std::size_t at = name.size() - end.size() - kDigits;
  const bool is_number = name.find_first_not_of("0123456789", at) == at + kDigits;
  if (!is_number || name[at - 1] != '-') return std::nullopt;
  return name.substr(0, at);
}

Failure of_part(const GgufPart& part, const std::string& why) {
  return Failure{"part " + quote_text(part.name) + ": " + why};
}

}  // namespace

std::optional<std::string> gguf_part_name(const std::string& name, std::uint64_t number,
                                          std::uint64_t count) {
  if (count > kMostParts || number > count) return std::nullopt;
  const std::optional<std::string> stem = split_stem(name, count);
  if (!stem) return std::nullopt;
  return *stem + digits(number) + std::string(kBetween) + digits(count) + std::string(kEnd);
}

bool are_gguf_parts(std::span<const std::string> names) {
  const std::string& any = names.front();
  const std::size_t of = any.rfind(kBetween);
  if (of == std::string::npos || !any.ends_with(kEnd)) return false;
  const std::size_t begin = of + kBetween.size();
  const auto count = parse_number<std::uint64_t>(
      std::string_view(any).substr(begin, any.size() - std::min(any.size(), begin + kEnd.size())));
  if (!count) return false;
  const std::optional<std::string> first = gguf_part_name(any, 1, *count);
  return first && std::ranges::all_of(names, [&](const std::string& name) {
           return gguf_part_name(name, 1, *count) == first;
         });
}

Result<std::vector<GgufPart>> find_gguf_parts(
    const GgufPart& file, const std::function<Result<std::span<const std::byte>>(const std::string&)>& open) {
  const Result<GgufHeader> header = parse_gguf(file.bytes);
  if (!header.ok()) return header.failure();
  GgufFields fields(header.value());
  const std::uint64_t count = fields.natural(kCount).value_or(1);
  const std::uint64_t number = fields.natural(kNumber).value_or(0);
  if (!fields.status().ok()) return fields.status().failure();
  if (count <= 1) return std::vector<GgufPart>{file};
  const std::string part = "this is part " + std::to_string(number + 1) + " of a model in " +
                           std::to_string(count) + " files (metadata 'split.count')";
  if (number >= count || gguf_part_name(file.name, number + 1, count) != file.name)
    return Failure{part + ", expected that its name ends in -" + digits(std::min(number, kMostParts) + 1) +
                   "-of-" + digits(count) + ".gguf, and those of the others likewise"};
  std::vector<GgufPart> parts;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i == number) {
      parts.push_back(file);
      continue;
    }
    const std::string name = *gguf_part_name(file.name, i + 1, count);
    const Result<std::span<const std::byte>> bytes = open(name);
    if (!bytes.ok()) return Failure{part + ", expected the others beside it: " + bytes.failure().message};
    parts.push_back({name, bytes.value()});
  }
  return parts;
}

Result<GgufHeader> parse_gguf_parts(std::span<const GgufPart> parts) {
  if (parts.size() == 1) return parse_gguf(parts.front().bytes);
  GgufHeader whole;
  std::optional<std::uint64_t> expected;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Result<GgufHeader> header = parse_gguf(parts[i].bytes);
    if (!header.ok()) return of_part(parts[i], header.failure().message);
    GgufFields fields(header.value());
    const auto number = fields.natural(kNumber), count = fields.natural(kCount);
    if (!fields.status().ok()) return of_part(parts[i], fields.status().failure().message);
    if (number != i || count != parts.size())
      return of_part(parts[i], "it is number " + (number ? std::to_string(*number) : "(none)") + " of " +
                                   (count ? std::to_string(*count) : "(none)") +
                                   " (split.no and split.count), expected " + std::to_string(i) + " of " +
                                   std::to_string(parts.size()));
    if (i == 0) {
      expected = fields.natural(kTensors);
      if (!fields.status().ok()) return of_part(parts[i], fields.status().failure().message);
    }
    for (GgufTensor& tensor : header.value().tensors) tensor.part = i;
    if (i == 0) {
      whole = std::move(header.value());
      continue;
    }
    auto& tensors = header.value().tensors;
    std::move(tensors.begin(), tensors.end(), std::back_inserter(whole.tensors));
  }
  if (expected && *expected != whole.tensors.size())
    return Failure{"its files hold " + count_text(whole.tensors.size(), "tensor") + ", expected " +
                   std::to_string(*expected) + " (metadata 'split.tensors.count')"};
  std::vector<std::string_view> names;
  for (const GgufTensor& tensor : whole.tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    return Failure{"tensor " + quote_text(*twice) + " lies in two of its files"};
  return whole;
}

}  // namespace crumb
