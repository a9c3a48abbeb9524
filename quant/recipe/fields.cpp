#include "quant/recipe/fields.h"

#include <algorithm>
#include <iterator>

#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "formats/crumb_file/writer.h"
#include "quant/recipe/name_pattern.h"

namespace crumb {
namespace {

using Values = std::vector<std::string>;

constexpr std::string_view kRoleNames[] = {"weight", "embedding", "any"};  // indexed by Rule::Role

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

CodeLayout parse_layout(const std::string& text) {
  const auto found = std::ranges::find(kCodeLayoutNames, text);
  if (found == std::end(kCodeLayoutNames))
    throw usage_error("expected rows or tiles, found " + quote_text(text));
  return static_cast<CodeLayout>(found - std::begin(kCodeLayoutNames));
}

Rule::Role parse_role(const std::string& text) {
  const auto found = std::ranges::find(kRoleNames, text);
  if (found == std::end(kRoleNames)) {
    throw usage_error("expected weight, embedding or any, found " + quote_text(text) + "; did you mean '" +
                      nearest_name(text, kRoleNames) + "'?");
  }
  return static_cast<Rule::Role>(found - std::begin(kRoleNames));
}

constexpr int kMostBiasBits = 32;

/// Parses "int32": signed, two to 32 bits.
int parse_bias(const std::string& text) {
  if (text == "keep") return 0;
  const std::string digits = text.starts_with("int") ? text.substr(3) : "";
  const bool good = !digits.empty() && digits.size() <= 2 &&
                    digits.find_first_not_of("0123456789") == std::string::npos && digits.front() != '0';
  const int bits = good ? std::stoi(digits) : 0;
  if (bits < 2 || bits > kMostBiasBits) {
    throw usage_error("expected int2 to int32, as in int32, or keep, found " + quote_text(text));
  }
  return bits;
}

Recipe::BatchNorm parse_batch_norm(const std::string& text) {
  if (text == "fold") return Recipe::BatchNorm::kFold;
  if (text == "keep") return Recipe::BatchNorm::kKeep;
  throw usage_error("expected fold or keep, found " + quote_text(text));
}

Recipe::AveragePools parse_average_pools(const std::string& text) {
  if (text == "quantize") return Recipe::AveragePools::kQuantize;
  if (text == "truncate") return Recipe::AveragePools::kTruncate;
  throw usage_error("expected quantize or truncate, found " + quote_text(text));
}

void check_operator(const std::string& name) {
  const bool good = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!good) throw usage_error("expected the name of an operator, as in Conv, found " + quote_text(name));
}

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
    {{"layout", FieldKind::kScalar, "rows or tiles",
      "How codes of weights lie in the packed file: in rows, or in tiles that kernels read as they lie, "
      "never "
      "compressed (rows)",
      "tiles", "--layout"},
     [](Recipe& recipe, const Values& values) { recipe.layout = parse_layout(values[0]); },
     [](const Recipe& recipe) { return recipe.layout == CodeLayout::kRows ? Values{} : Values{"tiles"}; }},
    {{"rules", FieldKind::kRules, "a list of rules", "What differs from the above, by name; later rules win",
      "[{match: {name: \"lm_head\"}, skip: true}]", "--include --exclude --set"}},
    {{"activations", FieldKind::kScalar, "SPEC or keep",
      "Of a graph: the spec of what operators with weights, residual adds and concatenations take in, or "
      "'keep' (keep)",
      "uint8:tensor", "--activations"},
     [](Recipe& recipe, const Values& values) { recipe.activations = parse_activations_or_keep(values[0]); },
     [](const Recipe& recipe) {
       return recipe.activations ? Values{recipe.activations->to_string()} : Values{};
     }},
    {{"inputs", FieldKind::kScalar, "SPEC or keep",
      "Of a graph: the spec of the network's inputs, or 'keep' (as activations)", "int8:tensor", "--inputs"},
     [](Recipe& recipe, const Values& values) {
       recipe.inputs.emplace(parse_activations_or_keep(values[0]));
     },
     [](const Recipe& recipe) { return recipe.inputs ? Values{to_string(*recipe.inputs)} : Values{}; }},
    {{"biases", FieldKind::kScalar, "intN or keep",
      "Of a graph: bits of biases, at the scale of the input times that of the weight, or 'keep' (keep)",
      "int32", "--biases"},
     [](Recipe& recipe, const Values& values) { recipe.bias_bits = parse_bias(values[0]); },
     [](const Recipe& recipe) {
       return recipe.bias_bits == 0 ? Values{} : Values{"int" + std::to_string(recipe.bias_bits)};
     }},
    {{"batch_norm", FieldKind::kScalar, "fold or keep",
      "Of a graph: whether batch normalization goes into the weights before it (fold)", "keep",
      "--batch-norm"},
     [](Recipe& recipe, const Values& values) { recipe.batch_norm = parse_batch_norm(values[0]); },
     [](const Recipe& recipe) {
       return recipe.batch_norm == Recipe::BatchNorm::kFold ? Values{} : Values{"keep"};
     }},
    {{"average_pools", FieldKind::kScalar, "quantize or truncate",
      "Of a graph: whether what average pools give gets a quantizer, or is the sum of integers without its "
      "lower bits (quantize)",
      "truncate", "--average-pools"},
     [](Recipe& recipe, const Values& values) { recipe.average_pools = parse_average_pools(values[0]); },
     [](const Recipe& recipe) {
       return recipe.average_pools == Recipe::AveragePools::kQuantize ? Values{} : Values{"truncate"};
     }},
    {{"kv_cache", FieldKind::kScalar, "SPEC or keep",
      "Of a decoder: the spec of the keys and values that it keeps, one scale for each token and head or for "
      "groups of a head, or 'keep' (keep)",
      "int8", "--kv-cache"},
     [](Recipe& recipe, const Values& values) { recipe.kv_cache = parse_cache_or_keep(values[0]); },
     [](const Recipe& recipe) { return recipe.kv_cache ? Values{recipe.kv_cache->to_string()} : Values{}; }},
    {{"accumulator", FieldKind::kGoal, "BITS:METHOD[:tile=N] or none",
      "For training: the register of every layer between the first and the last, by a2q or a2q_plus (none)",
      "16:a2q_plus", "--accumulator"},
     [](Recipe& recipe, const Values& values) { recipe.accumulator = parse_accumulator(values[0]); },
     [](const Recipe& recipe) {
       return recipe.accumulator ? Values{to_string(recipe.accumulator)} : Values{};
     }},
    {{"scales", FieldKind::kScalar, "learned, statistics, weight_norm or mean",
      "For training: how scales of weights are found (learned)", "statistics", "--scales"},
     [](Recipe& recipe, const Values& values) { recipe.scales = parse_weight_scales(values[0]); },
     [](const Recipe& recipe) {
       return recipe.scales == WeightScales::kLearned ? Values{}
                                                      : Values{std::string(name_of(recipe.scales))};
     }},
    {{"prune", FieldKind::kPrune, "SHARE[:SCOPE][:steps=N][:rewind][:floor=SHARE] or none",
      "For training: the share of weights that become zeros, by magnitude in all layers (global) or in each "
      "(layer); those that are zero already stay so, and with 0 they alone (none)",
      "0.8:global", "--prune"},
     [](Recipe& recipe, const Values& values) { recipe.prune = parse_prune(values[0]); },
     [](const Recipe& recipe) { return recipe.prune ? Values{to_string(recipe.prune)} : Values{}; }},
    {{"learned_bits", FieldKind::kBitBudget, "BUDGET[:least=N][:most=N] or none",
      "For training: widths of weights are learned within BUDGET: bits per weight, bytes, or bit operations "
      "(none)",
      "3.5bpw", "--learned-bits"},
     [](Recipe& recipe, const Values& values) { recipe.learned_bits = parse_learned_bits(values[0]); },
     [](const Recipe& recipe) {
       return recipe.learned_bits ? Values{to_string(recipe.learned_bits)} : Values{};
     }},
    {{"stages", FieldKind::kStages, "STAGE, or a list",
      "Of networks: what is done, in this order, when a network is quantized or a language model is trained; "
      "of the flag, between commas (what the other flags say)",
      "[block_wise, {end_to_end: {steps: 400}}]", "--stages"},
     [](Recipe& recipe, const Values& values) {
       recipe.stages.clear();
       for (const std::string& value : values) recipe.stages.push_back(parse_stage(value));
       count_shrinking(recipe.stages);  // refuses another order
     },
     [](const Recipe& recipe) {
       Values values;
       for (const Stage& stage : recipe.stages) values.push_back(to_string(stage));
       return values;
     }},
};

const Field<Rule> kRuleFields[] = {
    {{"match", FieldKind::kMatch, "a map",
      "Which tensors: by name, by role, or by both; of a graph by operator too", "{name: \"*.query.weight\"}",
      "", true}},
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
     [](const Rule& rule) { return rule.skips() ? Values{"true"} : Values{}; }},
    {{"optional", FieldKind::kScalar, "true or false",
      "Whether a rule may match nothing, which is an error otherwise (false)", "true", ""},
     [](Rule& rule, const Values& values) { rule.optional = parse_bool(values[0]); },
     [](const Rule& rule) { return rule.optional ? Values{"true"} : Values{}; }},
    {{"activations", FieldKind::kScalar, "SPEC or keep",
      "Of a graph: the spec of what the matching operators take in, or, of those that have no weights, give",
      "uint8:tensor", ""},
     [](Rule& rule, const Values& values) { rule.activations.emplace(parse_activations_or_keep(values[0])); },
     [](const Rule& rule) { return rule.activations ? Values{to_string(*rule.activations)} : Values{}; }},
    {{"accumulator", FieldKind::kGoal, "BITS:METHOD[:tile=N] or none",
      "For training: the register of the layers that match", "{bits: 16, method: a2q, tile: 64}", ""},
     [](Rule& rule, const Values& values) { rule.accumulator.emplace(parse_accumulator(values[0])); },
     [](const Rule& rule) { return rule.accumulator ? Values{to_string(*rule.accumulator)} : Values{}; }},
    {{"scales", FieldKind::kScalar, "learned, statistics, weight_norm or mean",
      "For training: how scales of the weights that match are found", "statistics", ""},
     [](Rule& rule, const Values& values) { rule.scales = parse_weight_scales(values[0]); },
     [](const Rule& rule) { return rule.scales ? Values{std::string(name_of(*rule.scales))} : Values{}; }},
    {{"prune", FieldKind::kPrune, "SHARE[:SCOPE][:steps=N][:rewind][:floor=SHARE] or none",
      "For training: the share of the weights that match which become zeros", "{share: 0.5, scope: layer}",
      ""},
     [](Rule& rule, const Values& values) { rule.prune.emplace(parse_prune(values[0])); },
     [](const Rule& rule) { return rule.prune ? Values{to_string(*rule.prune)} : Values{}; }},
    {{"learned_bits", FieldKind::kScalar, "true or false",
      "For training: whether widths of the weights that match are learned (false where a rule gives weights)",
      "true", ""},
     [](Rule& rule, const Values& values) { rule.learned_bits = parse_bool(values[0]); },
     [](const Rule& rule) {
       return rule.learned_bits ? Values{*rule.learned_bits ? "true" : "false"} : Values{};
     }},
};

const Field<AccumulatorGoal> kGoalFields[] = {
    {{"bits", FieldKind::kScalar, "2 to 63", "Bits of the register, its sign among them", "16", "", true},
     [](AccumulatorGoal& goal, const Values& values) { goal.bits = parse_accumulator_bits(values[0]); }},
    {{"method", FieldKind::kScalar, "a2q or a2q_plus", "How weights keep to it (a2q_plus)", "a2q", ""},
     [](AccumulatorGoal& goal, const Values& values) { goal.method = parse_accumulator_method(values[0]); }},
    {{"tile", FieldKind::kScalar, "N", "So many products share a register (the whole row)", "64", ""},
     [](AccumulatorGoal& goal, const Values& values) { goal.tile = parse_accumulator_tile(values[0]); }},
};

const Field<PruneGoal> kPruneFields[] = {
    {{"share", FieldKind::kScalar, "0 to less than 1", "Share of the weights that become zeros", "0.8", "",
      true},
     [](PruneGoal& goal, const Values& values) { goal.share = parse_prune_share(values[0]); }},
    {{"scope", FieldKind::kScalar, "global or layer",
      "The least of all layers whose goals are equal, or of each layer (global)", "layer", ""},
     [](PruneGoal& goal, const Values& values) { goal.scope = parse_prune_scope(values[0]); }},
    {{"steps", FieldKind::kScalar, "N", "Equal steps in which they go (10)", "8", ""},
     [](PruneGoal& goal, const Values& values) { goal.steps = parse_prune_steps(values[0]); }},
    {{"rewind", FieldKind::kScalar, "true or false",
      "Whether weights that are left go back to their first values at every step (false)", "true", ""},
     [](PruneGoal& goal, const Values& values) { goal.rewind = parse_bool(values[0]); }},
    {{"floor", FieldKind::kScalar, "0 to 1",
      "With global: the least share of each layer's weights that stays (0)", "0.02", ""},
     [](PruneGoal& goal, const Values& values) { goal.floor = parse_prune_floor(values[0]); }},
};

const Field<BitBudget> kBitBudgetFields[] = {
    {{"budget", FieldKind::kScalar, "BPWbpw, SIZE or NUMBERbops",
      "What all quantized weights together may cost: bits per weight, bytes, or bit operations of a sample",
      "3.5bpw", "", true},
     [](BitBudget& budget, const Values& values) {
       const BitBudget found = parse_bit_budget(values[0]);
       budget.bits_per_weight = found.bits_per_weight;
       budget.bytes = found.bytes;
       budget.bops = found.bops;
     }},
    {{"least", FieldKind::kScalar, "2 to 8", "Bits that a weight has at least (2)", "3", ""},
     [](BitBudget& budget, const Values& values) { budget.least = parse_learned_width(values[0]); }},
    {{"most", FieldKind::kScalar, "2 to 8", "Bits that a weight has at most (8)", "6", ""},
     [](BitBudget& budget, const Values& values) { budget.most = parse_learned_width(values[0]); }},
};

const Field<Rule::Match> kMatchFields[] = {
    {{"name", FieldKind::kList, "GLOB or re:REGEX, or a list of them",
      "Full names of tensors or of the layers that own them; * crosses dots",
      "[\"stem\", \"re:.*\\\\.head\"]", ""},
     [](Rule::Match& match, const Values& values) {
       for (const std::string& pattern : values) (void)NamePattern(pattern);  // throws where it is a bad one
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
    {{"op", FieldKind::kList, "an operator of ONNX, Linear or Embedding, or a list of them",
      "Of a graph: operators; Linear is MatMul and Gemm, Embedding is Gather", "[Conv, Linear]", ""},
     [](Rule::Match& match, const Values& values) {
       std::ranges::for_each(values, check_operator);
       match.op = values;
     },
     [](const Rule::Match& match) { return match.op; }},
    {{"depthwise", FieldKind::kScalar, "true or false",
      "Of a graph: convolutions with as many groups as channels, or all others", "true", ""},
     [](Rule::Match& match, const Values& values) { match.depthwise = parse_bool(values[0]); },
     [](const Rule::Match& match) {
       return match.depthwise ? Values{*match.depthwise ? "true" : "false"} : Values{};
     }},
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
template <>
std::span<const Field<AccumulatorGoal>> fields_of<AccumulatorGoal>() {
  return kGoalFields;
}
template <>
std::span<const Field<PruneGoal>> fields_of<PruneGoal>() {
  return kPruneFields;
}
template <>
std::span<const Field<BitBudget>> fields_of<BitBudget>() {
  return kBitBudgetFields;
}

const Field<Recipe>& recipe_field(std::string_view key) {
  return *std::ranges::find(kRecipeFields, key, &FieldInfo::key);
}

}  // namespace crumb
