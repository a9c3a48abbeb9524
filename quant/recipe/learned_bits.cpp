#include "quant/recipe/learned_bits.h"

#include <charconv>
#include <iterator>

#include "base/error.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/text/number.h"
#include "quant/recipe/target.h"

namespace crumb {
namespace {

constexpr std::string_view kLearnedWords[] = {"least=2", "most=8"};

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw usage_error("expected BUDGET[:least=N][:most=N], as in 3.5bpw, 200kB or 0.4Mbops, found " +
                    quote_text(text) + why);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::pair<std::uint64_t, const char*> kUnits[] = {
      {1000000000, "GB"}, {1000000, "MB"}, {1000, "kB"}};
  for (const auto& [factor, unit] : kUnits) {
    if (bytes % factor == 0) return std::to_string(bytes / factor) + unit;
  }
  return std::to_string(bytes) + "B";
}

std::string number_text(double number) {
  char text[400];
  const auto [end, error] = std::to_chars(std::begin(text), std::end(text), number, std::chars_format::fixed);
  return error == std::errc() ? std::string(text, end) : "0";
}

}  // namespace

BitBudget parse_bit_budget(std::string_view text) {
  BitBudget budget;
  if (const auto operations = parse_operations(text)) {
    if (!operations->ok()) refuse(text, ": " + operations->failure().message);
    budget.bops = operations->value();
    return budget;
  }
  const Result<Target> target = parse_target(text);
  if (!target.ok() || target.value().is_of_networks()) refuse(text, "");
  budget.bits_per_weight = target.value().bits_per_weight;
  budget.bytes = target.value().file_bytes;
  return budget;
}

int parse_learned_width(std::string_view text) {
  const auto bits = parse_number<int>(text);
  if (!bits || *bits < BitBudget::kFewestBits || *bits > BitBudget::kMostBits) {
    throw usage_error("expected a number of bits, " + std::to_string(BitBudget::kFewestBits) + " to " +
                      std::to_string(BitBudget::kMostBits) + ", as in least=3, found " + quote_text(text));
  }
  return *bits;
}

std::optional<BitBudget> parse_learned_bits(std::string_view text) {
  if (text == "none") return std::nullopt;
  BitBudget budget;
  bool has_least = false, has_most = false;
  for (size_t part = 0, begin = 0; begin <= text.size(); ++part) {
    const size_t end = std::min(text.find(':', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (part == 0) {
      budget = parse_bit_budget(word);
    } else if (word.starts_with("least=") && !has_least) {
      has_least = true;
      budget.least = parse_learned_width(word.substr(6));
    } else if (word.starts_with("most=") && !has_most) {
      has_most = true;
      budget.most = parse_learned_width(word.substr(5));
    } else {
      refuse(text, ": " + quote_text(word) + " is given twice, or is no part of it; did you mean '" +
                       nearest_name(word, kLearnedWords) + "'?");
    }
  }
  if (budget.least > budget.most) {
    throw usage_error("the least number of bits is more than the most: least=" +
                      std::to_string(budget.least) + ", most=" + std::to_string(budget.most));
  }
  return budget;
}

std::string budget_text(const BitBudget& budget) {
  if (budget.bops > 0) return std::to_string(budget.bops) + "bops";
  return budget.bytes > 0 ? bytes_text(budget.bytes) : number_text(budget.bits_per_weight) + "bpw";
}

std::string to_string(const std::optional<BitBudget>& budget) {
  if (!budget) return "none";
  std::string text = budget_text(*budget);
  if (budget->least != BitBudget::kFewestBits) text += ":least=" + std::to_string(budget->least);
  if (budget->most != BitBudget::kMostBits) text += ":most=" + std::to_string(budget->most);
  return text;
}

}  // namespace crumb
