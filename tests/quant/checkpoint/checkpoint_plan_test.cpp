// The plan: a recipe's rules against a naive reading of the same words, and what is refused.
#include "quant/checkpoint/checkpoint_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "quant/recipe/name_pattern.h"
#include "tests/support/samples.h"

using crumb::DType;
using crumb::plan_tensors;
using crumb::PlannedTensor;
using crumb::QuantSpec;
using crumb::Recipe;
using crumb::Rule;
using crumb::SpecOrKeep;
using crumb::TensorEntry;
using crumb::TensorRole;
using crumb::testing::says;

namespace {

TensorEntry entry(const std::string& name, DType dtype, const std::vector<uint64_t>& shape) {
  TensorEntry made;
  made.name = name;
  made.dtype = dtype;
  made.shape = shape;
  return made;
}

std::vector<TensorEntry> model() {
  return {entry("a*b.weight", DType::kF32, {4, 8}),
          entry("embed.weight", DType::kF32, {10, 8}),
          entry("ids", DType::kI64, {1, 8}),
          entry("layer.0.norm.weight", DType::kF32, {8}),
          entry("layer.0.query.bias", DType::kF32, {8}),
          entry("layer.0.query.weight", DType::kF16, {8, 8}),
          entry("layer.1.query.bias", DType::kF32, {8}),
          entry("layer.1.query.weight", DType::kBF16, {8, 8}),
          entry("lm_head", DType::kF32, {3, 8}),
          entry("lm_head.weight", DType::kF32, {10, 8}),
          entry("ints.weight", DType::kI32, {4, 8}),
          entry("temperature", DType::kF32, {})};
}

std::string text_of(const std::vector<PlannedTensor>& plan, const std::string& name) {
  for (const PlannedTensor& planned : plan) {
    if (planned.entry->name == name) return to_string(planned.spec);
  }
  return "not there";
}

Recipe with_rule(Rule rule) { return {.weights = QuantSpec::parse("int4"), .rules = {std::move(rule)}}; }

Rule weights_rule(const std::vector<std::string>& names, const std::vector<Rule::Role>& roles = {}) {
  return {.match = {names, roles}, .weights = QuantSpec::parse("int6")};
}

std::string refusal(const Recipe& recipe) {
  const std::vector<TensorEntry> tensors = model();
  try {
    (void)plan_tensors(tensors, nullptr, recipe);
    return {};
  } catch (const crumb::Error& error) {
    CHECK(error.kind() == crumb::ErrorKind::kUsage);
    return error.what();
  }
}

/// Globs of * and literal characters, the slow way.
bool naive_glob(std::string_view glob, std::string_view text) {
  if (glob.empty()) return text.empty();
  if (glob[0] == '*') {
    return naive_glob(glob.substr(1), text) || (!text.empty() && naive_glob(glob, text.substr(1)));
  }
  return !text.empty() && (glob[0] == '?' || glob[0] == text[0]) &&
         naive_glob(glob.substr(1), text.substr(1));
}

std::string naive_layer(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

bool naive_match(const std::string& glob, const std::string& name) {
  if (naive_glob(glob, name)) return true;
  const std::string layer = naive_layer(name);
  return !layer.empty() && naive_match(glob, layer);
}

/// The same plan from the sentences of recipe.h; nothing where a rule reaches nothing.
std::optional<std::vector<SpecOrKeep>> naive_plan(const std::vector<TensorEntry>& tensors,
                                                  const Recipe& recipe) {
  std::vector<SpecOrKeep> specs;
  std::vector<TensorRole> roles;
  for (const TensorEntry& tensor : tensors) {
    roles.push_back(crumb::classify_tensor(tensor.name, tensor.dtype, tensor.shape).role);
    specs.push_back(roles.back() == TensorRole::kWeight      ? recipe.weights
                    : roles.back() == TensorRole::kEmbedding ? recipe.embeddings
                                                             : SpecOrKeep());
  }
  for (const Rule& rule : recipe.rules) {
    const std::vector<std::string> patterns =
        rule.match.name.empty() ? std::vector<std::string>{"*"} : rule.match.name;
    for (const std::string& pattern : patterns) {
      bool reached = false;
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (!naive_match(pattern, tensors[i].name)) continue;
        const bool named = pattern == tensors[i].name && pattern.find_first_of("*?") == std::string::npos;
        bool wanted = false;
        for (const Rule::Role role : rule.match.role) {
          if (role == Rule::Role::kAny) wanted = true;
          if (role == Rule::Role::kWeight && roles[i] == TensorRole::kWeight) wanted = true;
          if (role == Rule::Role::kEmbedding && roles[i] == TensorRole::kEmbedding) wanted = true;
        }
        if (rule.match.role.empty()) wanted = !rule.weights || named || roles[i] != TensorRole::kKept;
        if (rule.weights && roles[i] == TensorRole::kKept && !naive_glob(pattern, tensors[i].name)) {
          bool by_bare_layer = false;
          for (std::string at = naive_layer(tensors[i].name); !at.empty(); at = naive_layer(at)) {
            bool has_weights = false;
            for (size_t k = 0; k < tensors.size(); ++k)
              has_weights |= roles[k] != TensorRole::kKept && tensors[k].name.starts_with(at + ".");
            by_bare_layer |= naive_glob(pattern, at) && !has_weights;
          }
          wanted &= by_bare_layer;
        }
        if (rule.weights && !crumb::is_floating(tensors[i].dtype)) wanted = false;
        if (!wanted) continue;
        specs[i] = rule.weights;
        reached = true;
      }
      if (!reached && !rule.optional) return std::nullopt;
    }
  }
  return specs;
}

}  // namespace

TEST_CASE("plan: roles give the defaults") {
  const std::vector<TensorEntry> tensors = model();
  const Recipe recipe{.weights = QuantSpec::parse("int4")};
  const auto plan = plan_tensors(tensors, nullptr, recipe);
  REQUIRE(plan.size() == tensors.size());
  for (const PlannedTensor& planned : plan) {
    CAPTURE(planned.entry->name);
    CHECK(planned.spec.has_value() == planned.kept_because.empty());
    CHECK(planned.spec.has_value() == (planned.role != TensorRole::kKept));
  }
  CHECK(text_of(plan, "layer.0.query.weight") == "int4:channel");
  CHECK(text_of(plan, "embed.weight") == "int8:channel");
  CHECK(text_of(plan, "layer.0.norm.weight") == "keep");
  const auto kept = plan_tensors(tensors, nullptr, {.weights = std::nullopt, .embeddings = std::nullopt});
  for (const PlannedTensor& planned : kept) CHECK_FALSE((planned.spec || planned.kept_because.empty()));
}

TEST_CASE("plan: names of layers, names in full, roles") {
  const std::vector<TensorEntry> tensors = model();
  const auto plan = [&](const Rule& rule) { return plan_tensors(tensors, nullptr, with_rule(rule)); };
  // The layer: its weight, not its bias, whatever the role; all of a layer without weights.
  CHECK(text_of(plan(weights_rule({"layer.0.query"})), "layer.0.query.weight") == "int6:channel");
  CHECK(text_of(plan(weights_rule({"layer.0.query"})), "layer.0.query.bias") == "keep");
  for (const char* name : {"layer.0.query", "layer.?.query", "re:layer\\.0\\.query"}) {
    const auto by_layer = plan(weights_rule({name}, {Rule::Role::kAny}));
    CHECK(text_of(by_layer, "layer.0.query.weight") == "int6:channel");
    CHECK(text_of(by_layer, "layer.0.query.bias") == "keep");
  }
  CHECK(text_of(plan(weights_rule({"layer.0.query*"}, {Rule::Role::kAny})), "layer.0.query.bias") ==
        "int6:channel");
  CHECK(text_of(plan(weights_rule({"layer.0.norm"}, {Rule::Role::kAny})), "layer.0.norm.weight") ==
        "int6:channel");
  // In full: whatever it is, unless a role is given.
  CHECK(text_of(plan(weights_rule({"layer.0.query.bias"})), "layer.0.query.bias") == "int6:channel");
  CHECK(text_of(plan(weights_rule({"temperature"})), "temperature") == "int6:channel");
  CHECK(says(refusal(with_rule(weights_rule({"layer.0.query.bias"}, {Rule::Role::kWeight}))),
             {"role", "layer.0.query.bias"}));
  // A name that is a tensor's and a layer's.
  const auto both = plan(weights_rule({"lm_head"}));
  CHECK(text_of(both, "lm_head") == "int6:channel");
  CHECK(text_of(both, "lm_head.weight") == "int6:channel");
  // Wildcards and regular expressions reach weights and tables.
  const auto all = plan(weights_rule({"*"}));
  for (const PlannedTensor& planned : all) {
    CHECK(to_string(planned.spec) == (planned.role == TensorRole::kKept ? "keep" : "int6:channel"));
  }
  CHECK(text_of(plan(weights_rule({"re:layer\\.\\d\\.query"})), "layer.1.query.weight") == "int6:channel");
  CHECK(text_of(plan(weights_rule({}, {Rule::Role::kEmbedding})), "embed.weight") == "int6:channel");
  CHECK(text_of(plan(weights_rule({}, {Rule::Role::kEmbedding})), "lm_head.weight") == "int4:channel");
  // An escaped name is one tensor's.
  CHECK(text_of(plan(crumb::rule_for_tensors({"a*b.weight"}, QuantSpec::parse("int6"))), "a*b.weight") ==
        "int6:channel");
}

TEST_CASE("plan: integers stay, and the reason says so") {
  const std::vector<TensorEntry> tensors = model();
  Rule rule = weights_rule({"*"}, {Rule::Role::kAny});
  rule.origin = "--set";
  for (const PlannedTensor& planned : plan_tensors(tensors, nullptr, with_rule(rule))) {
    CHECK(planned.spec.has_value() == crumb::is_floating(planned.entry->dtype));
    if (!planned.spec) CHECK(says(planned.kept_because, {"not floating point", "--set '*'"}));
  }
  CHECK(says(refusal(with_rule(weights_rule({"ids"}))), {"'ids'", "not floating"}));
}

TEST_CASE("plan: a pattern that reaches nothing is an error with its rule's place and the nearest name") {
  Rule rule = weights_rule({"layer.0.query", "layer.O.query"});
  rule.origin = "'mine.yaml' line 7";
  CHECK(says(refusal(with_rule(rule)),
             {"'mine.yaml' line 7", "'layer.O.query'", "12 tensors", "'layer.0.query'"}));
  rule.optional = true;
  CHECK(refusal(with_rule(rule)) == "");
  CHECK(says(refusal(with_rule(weights_rule({"*.bias"}))), {"'*.bias'", "role", "any"}));
  Rule skip{.match = {.name = {"nothing*"}}};
  CHECK(says(refusal(with_rule(skip)), {"'nothing*'", "none of the"}));
  CHECK(says(refusal(with_rule(weights_rule({"re:(a"}))), {"'('"}));

  // Of a glob the part that is wrong, and only a recipe can say that a rule is optional.
  for (const char* glob : {"*.qury", "layer.*.qury.weight", "*qury*"})
    CHECK(says(refusal(with_rule(weights_rule({glob}))), {"the part 'qury'", "'query'", "optional: true"}));
  rule = weights_rule({"layr.*"});
  rule.origin = "--set";
  CHECK(says(refusal(with_rule(rule)), {"--set 'layr.*'", "the part 'layr'", "'layer'"}));
  CHECK(refusal(with_rule(rule)).find("optional") == std::string::npos);
}

TEST_CASE("plan: as a naive reading of the rules has it") {
  std::mt19937 engine(23);
  const auto below = [&](unsigned n) { return engine() % n; };
  static const std::vector<std::string> kParts = {"layer",  "0",    "1",     "query", "key",
                                                  "weight", "bias", "embed", "norm"};
  static const std::vector<std::string> kGlobs = {"*",     "*.weight", "layer.*", "*query*",
                                                  "*.?.*", "?",        "*bias",   "x*"};
  static const std::vector<std::string> kSpecs = {"int2", "int3", "int4", "int5", "int8:tensor"};
  size_t planned = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<TensorEntry> tensors;
    for (unsigned i = 1 + below(8); i > 0; --i) {
      std::string name = kParts[below(9)];
      for (unsigned k = below(4); k > 0; --k) name += "." + kParts[below(9)];
      if (std::ranges::find(tensors, name, &TensorEntry::name) != tensors.end()) continue;
      const DType dtype = below(6) == 0 ? DType::kI32 : DType::kF32;
      tensors.push_back(
          entry(name, dtype, below(4) == 0 ? std::vector<uint64_t>{8} : std::vector<uint64_t>{4, 8}));
    }
    const auto some_layer = [&](std::string name) {
      do name = naive_layer(name);
      while (below(2) == 0 && !naive_layer(name).empty());
      return name;
    };
    const auto spec = [&] { return below(4) == 0 ? SpecOrKeep() : QuantSpec::parse(kSpecs[below(5)]); };
    Recipe recipe{.weights = spec(), .embeddings = spec()};
    for (unsigned i = below(4); i > 0; --i) {
      Rule rule{.weights = spec(), .optional = below(2) == 0};
      for (unsigned k = below(3); k > 0; --k) {
        const std::string& name = tensors[below(static_cast<unsigned>(tensors.size()))].name;
        rule.match.name.push_back(below(2) == 0 ? kGlobs[below(8)] : below(2) == 0 ? name : some_layer(name));
      }
      for (unsigned k = below(3); k > 0; --k) rule.match.role.push_back(static_cast<Rule::Role>(below(3)));
      if (rule.match.name.empty() && rule.match.role.empty()) rule.match.role = {Rule::Role::kAny};
      recipe.rules.push_back(rule);
    }
    CAPTURE(to_yaml(recipe));
    const auto expected = naive_plan(tensors, recipe);
    try {
      const auto plan = plan_tensors(tensors, nullptr, recipe);
      REQUIRE(expected);
      for (size_t i = 0; i < tensors.size(); ++i) {
        CAPTURE(tensors[i].name);
        REQUIRE(plan[i].spec == (*expected)[i]);
        REQUIRE(plan[i].spec.has_value() == plan[i].kept_because.empty());
      }
      ++planned;
    } catch (const crumb::Error& error) {
      CHECK(error.kind() == crumb::ErrorKind::kUsage);
      CAPTURE(error.what());
      REQUIRE_FALSE(expected);
      ++refused;
    }
  }
  CHECK(planned > 500);
  CHECK(refused > 500);
}
