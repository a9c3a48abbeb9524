// Prints a Recipe as YAML, driven by the table of fields.
#include <algorithm>

#include "base/files/text.h"
#include "quant/recipe/fields.h"
#include "quant/recipe/name_pattern.h"
#include "quant/recipe/recipe.h"

namespace crumb {
namespace {

constexpr size_t kMostInLine = 4;  // longer lists have a line for each item

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Whether a text is written as it is, as specs and words are; everything else goes in double quotes.
bool is_plain(std::string_view text) {
  constexpr std::string_view kNull[] = {"null", "Null", "NULL"};
  return !text.empty() && is_word(text.front()) && is_word(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_word(c) || c == ':' || c == '=' || c == '.'; }) &&
         std::ranges::find(kNull, text) == std::end(kNull);
}

std::string scalar(std::string_view text, bool plain_words) {
  if (plain_words && is_plain(text)) return std::string(text);
  constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t length = std::max<size_t>(utf8_character(text.substr(i, 4)), 1);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += text[i];
    } else if (c < 0x20 || c == 0x7f) {
      quoted += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    } else {
      quoted += text.substr(i, length);
    }
    i += length;
  }
  return quoted + '"';
}

template <class T>
std::string value_text(const Field<T>& field, const std::vector<std::string>& values) {
  const bool words = field.key != "name";
  if (values.size() == 1) return scalar(values[0], words);
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + scalar(value, words);
  return "[" + text + "]";
}

/// Returns "key: value, key: value" of the fields that have a value.
template <class T>
std::string inline_fields(const T& owner) {
  std::string text;
  for (const Field<T>& field : fields_of<T>()) {
    std::string value;
    if (field.print) {
      const std::vector<std::string> values = field.print(owner);
      if (values.empty()) continue;
      value = value_text(field, values);
    } else if (field.kind == FieldKind::kMatch) {
      if constexpr (std::is_same_v<T, Rule>) value = "{" + inline_fields(owner.match) + "}";
    } else {
      continue;
    }
    text += (text.empty() ? "" : ", ") + std::string(field.key) + ": " + value;
  }
  return text;
}

/// Returns a rule whose names are too many for one line, one item a line.
std::string long_rule(const Rule& rule, const std::string& indent) {
  Rule rest = rule;
  rest.match = {};
  std::string text = indent + "- match:\n";
  for (const Field<Rule::Match>& field : fields_of<Rule::Match>()) {
    const std::vector<std::string> values =
        field.print ? field.print(rule.match) : std::vector<std::string>{};
    if (values.empty()) continue;
    text += indent + "    " + std::string(field.key) + ":";
    if (values.size() <= kMostInLine) {
      text += " " + value_text(field, values) + "\n";
      continue;
    }
    text += '\n';
    for (const std::string& value : values)
      text += indent + "      - " + scalar(value, field.key != "name") + "\n";
  }
  for (const Field<Rule>& field : fields_of<Rule>()) {
    const std::vector<std::string> values = field.print ? field.print(rest) : std::vector<std::string>{};
    if (!values.empty())
      text += indent + "  " + std::string(field.key) + ": " + value_text(field, values) + "\n";
  }
  return text;
}

std::string rules_text(const std::vector<Rule>& rules) {
  std::string text;
  for (const Rule& rule : rules) {
    const bool is_long =
        std::max({rule.match.name.size(), rule.match.role.size(), rule.match.op.size()}) > kMostInLine;
    text += is_long ? long_rule(rule, "  ") : "  - {" + inline_fields(rule) + "}\n";
  }
  return text;
}

std::string print(const Recipe& recipe, bool comments) {
  std::string text;
  for (const Field<Recipe>& field : fields_of<Recipe>()) {
    const std::string key(field.key);
    if (comments) text += "# " + std::string(field.help) + "\n";
    const std::vector<std::string> values = field.print ? field.print(recipe) : std::vector<std::string>{};
    if (!values.empty()) {
      text += key + ": " + value_text(field, values) + "\n";
    } else if (field.kind != FieldKind::kRules) {
      if (comments) text += "# " + key + ": " + std::string(field.example) + "\n";
    } else if (!recipe.rules.empty()) {
      text += key + ":\n" + rules_text(recipe.rules);
    } else if (comments) {
      text += "# " + key + ": " + std::string(field.example) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string to_yaml(const Recipe& recipe) { return print(recipe, false); }

std::string to_commented_yaml(const Recipe& recipe) { return print(recipe, true); }

}  // namespace crumb
