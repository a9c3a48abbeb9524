#include "quant/recipe/fields.h"

#include <algorithm>
#include <iterator>

#include "formats/crumb_file/writer.h"
#include "formats/io/text.h"
#include "formats/text/nearest_name.h"
#include "quant/recipe/name_pattern.h"

namespace crumb {
namespace {

using Values = std::vector<std::string>;

constexpr std::string_view kRoleNames[] = {"weight", "embedding", "any"};  // as Rule::Role

/// A word that YAML readers write in several ways.
bool parse_bool(const std::string& text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  throw usage_error("expected true or false, found " + quote_text(text));
}

int parse_zstd(const std::string& text) {
  if (text == "off") return 0;
  const bool digits =
      !text.empty() && text.size() <= 2 && text.find_first_not_of("0123456789") == std::string::npos;
  const int level = digits ? std::stoi(text) : 0;
  if (level < 1 || level > kMostZstdLevel) {
    throw usage_error("expected a level from 1 to " + std::to_string(kMostZstdLevel) + " or off, found " +
                      quote_text(text));
  }
  return level;
}

Rule::Role parse_role(const std::string& text) {
  const auto found = std::ranges::find(kRoleNames, text);
  if (found == std::end(kRoleNames)) {
    throw usage_error("expected weight, embedding or any, found " + quote_text(text) + "; did you mean '" +
                      nearest_name(text, kRoleNames) + "'?");
  }
  return static_cast<Rule::Role>(found - std::begin(kRoleNames));
}

constexpr std::string_view kNotYetActivations = "quantized activations come with graphs";

const Field<Recipe> kRecipeFields[] = {
    {{"version", FieldKind::kScalar, "1", "The version of the recipe's form", "1", ""},
     [](Recipe&, const Values& values) {
       if (values[0] != std::to_string(Recipe::kVersion)) {
         throw usage_error("expected " + std::to_string(Recipe::kVersion) + ", found " +
                           quote_text(values[0]));
       }
     },
     [](const Recipe&) { return Values{std::to_string(Recipe::kVersion)}; }},
    {{"weights", FieldKind::kScalar, "SPEC or keep",
      "The spec of linear and convolution weights, as in int4:group=128, or 'keep'", "int4:group=128",
      "--weights", true},
     [](Recipe& recipe, const Values& values) { recipe.weights = parse_spec_or_keep(values[0]); },
     [](const Recipe& recipe) { return Values{to_string(recipe.weights)}; }},
    {{"embeddings", FieldKind::kScalar, "SPEC or keep",
      "The spec of embedding tables, or 'keep' (int8:channel)", "int8:channel", "--embeddings"},
     [](Recipe& recipe, const Values& values) { recipe.embeddings = parse_spec_or_keep(values[0]); },
     [](const Recipe& recipe) { return Values{to_string(recipe.embeddings)}; }},
    {{"zstd", FieldKind::kScalar, "LEVEL or off", "Compress with zstd at LEVEL 1 to 19, or 'off' (off)",
      "off", "--zstd"},
     [](Recipe& recipe, const Values& values) { recipe.zstd = parse_zstd(values[0]); },
     [](const Recipe& recipe) {
       return Values{recipe.zstd == 0 ? std::string("off") : std::to_string(recipe.zstd)};
     }},
    {{"rules", FieldKind::kRules, "a list of rules", "What differs from the above, by name; later rules win",
      "[{match: {name: \"lm_head\"}, skip: true}]", "--include --exclude --set"}},
    {{"activations", FieldKind::kNotYet, "", kNotYetActivations}},
    {{"stages", FieldKind::kNotYet, "", "methods beyond rounding come with graphs"}},
};

const Field<Rule> kRuleFields[] = {
    {{"match", FieldKind::kMatch, "a map", "Which tensors: by name, by role, or by both",
      "{name: \"*.query.weight\"}", "", true}},
    {{"weights", FieldKind::kScalar, "SPEC", "The spec of what matches", "int8:channel", ""},
     [](Rule& rule, const Values& values) {
       if (values[0] == "keep")
         throw usage_error("expected a spec, found 'keep'; a rule keeps by skip: true");
       rule.weights = parse_spec_or_keep(values[0]);
     },
     [](const Rule& rule) { return rule.weights ? Values{rule.weights->to_string()} : Values{}; }},
    {{"skip", FieldKind::kScalar, "true", "Keep what matches as it is; instead of weights", "true", ""},
     [](Rule& rule, const Values& values) {
       if (!parse_bool(values[0])) throw usage_error("expected true, found 'false'; leave it out instead");
       rule.weights = std::nullopt;
     },
     [](const Rule& rule) { return rule.weights ? Values{} : Values{"true"}; }},
    {{"optional", FieldKind::kScalar, "true or false",
      "Whether a rule may match nothing, which is an error otherwise (false)", "true", ""},
     [](Rule& rule, const Values& values) { rule.optional = parse_bool(values[0]); },
     [](const Rule& rule) { return rule.optional ? Values{"true"} : Values{}; }},
    {{"activations", FieldKind::kNotYet, "", kNotYetActivations}},
    {{"accumulator", FieldKind::kNotYet, "", "accumulators come with graphs"}},
};

const Field<Rule::Match> kMatchFields[] = {
    {{"name", FieldKind::kList, "GLOB or re:REGEX, or a list of them",
      "Full names of tensors or of the layers that own them; * crosses dots",
      "[\"stem\", \"re:.*\\\\.head\"]", ""},
     [](Rule::Match& match, const Values& values) {
       for (const std::string& pattern : values) (void)NamePattern(pattern);  // is it a good one?
       match.name = values;
     },
     [](const Rule::Match& match) { return match.name; }},
    {{"role", FieldKind::kList, "weight, embedding or any, or a list of them",
      "What the tensors are for (weight and embedding, and any for a tensor named in full)", "embedding", ""},
     [](Rule::Match& match, const Values& values) {
       match.role.clear();
       for (const std::string& role : values) match.role.push_back(parse_role(role));
     },
     [](const Rule::Match& match) {
       Values names;
       for (const Rule::Role role : match.role) names.emplace_back(kRoleNames[static_cast<size_t>(role)]);
       return names;
     }},
    {{"op", FieldKind::kNotYet, "", "operators come with graphs"}},
    {{"depthwise", FieldKind::kNotYet, "", "operators come with graphs"}},
};

}  // namespace

template <>
std::span<const Field<Recipe>> fields_of<Recipe>() {
  return kRecipeFields;
}
template <>
std::span<const Field<Rule>> fields_of<Rule>() {
  return kRuleFields;
}
template <>
std::span<const Field<Rule::Match>> fields_of<Rule::Match>() {
  return kMatchFields;
}

const Field<Recipe>& recipe_field(std::string_view key) {
  return *std::ranges::find(kRecipeFields, key, &FieldInfo::key);
}

}  // namespace crumb
