// Recipes: YAML in and out, presets, and bytes from nowhere. What is refused is in refusals_test.cpp.
#include "quant/recipe/recipe.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "quant/recipe/fields.h"
#include "quant/recipe/name_pattern.h"
#include "tests/quant/recipe/refusal.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

using crumb::parse_recipe;
using crumb::QuantSpec;
using crumb::Recipe;
using crumb::Rule;
using crumb::testing::refusal;
using crumb::testing::says;
using crumb::testing::with_rule;

namespace {

const std::string kSample = R"(# everything that a recipe may hold
version: 1
weights: int4:channel            # defaults for every linear and convolution
embeddings: keep
zstd: 9
rules:                           # later rules win; names are globs, or re:...
  - {match: {name: ["stem", "head"]}, weights: int8:channel}
  - {match: {name: 're:.*\.(query|key)\.weight', role: weight}, weights: "int3:group=64"}
  - match:
      role: [embedding, any]
    weights: int8:channel:search=percentile=99.5
    optional: false
  - {match: {name: "lm_head"}, skip: true, optional: true}
)";

const std::vector<std::string> kSpecs = {"int4:group=128",
                                         "int8:channel",
                                         "mxfp4",
                                         "int2h:group=64:search=mse",
                                         "uint4:search=percentile=99.9:zero=int:range=narrow:pad",
                                         "int3:round=stochastic=5",
                                         "e2m1:block=4x16:scale=e8m0",
                                         "palette4"};

class RandomRecipes {
 public:
  explicit RandomRecipes(uint32_t seed) : engine_(seed) {}

  Recipe recipe() {
    Recipe recipe{.weights = spec_or_keep(), .embeddings = spec_or_keep(), .zstd = below(20), .rules = {}};
    recipe.activations = activations_or_keep();
    if (below(2) == 0) recipe.inputs.emplace(activations_or_keep());
    if (below(2) == 0) recipe.bias_bits = 2 + below(31);
    if (below(2) == 0) recipe.batch_norm = Recipe::BatchNorm::kKeep;
    recipe.accumulator = goal_or_none();
    recipe.scales = static_cast<crumb::WeightScales>(below(4));
    recipe.prune = prune_or_none();
    recipe.learned_bits = budget_or_none();
    for (int i = below(5); i > 0; --i) recipe.rules.push_back(rule());
    return recipe;
  }

 private:
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  QuantSpec spec() { return QuantSpec::parse(kSpecs[engine_() % kSpecs.size()]); }
  crumb::SpecOrKeep spec_or_keep() { return below(3) == 0 ? crumb::SpecOrKeep() : spec(); }

  crumb::SpecOrKeep activations_or_keep() {
    static const std::vector<std::string> kActivations = {"uint8", "int4:search=ema", "e4m3fn:scale=e8m0",
                                                          "uint2:zero=int:search=percentile=99.5", "binary"};
    if (below(3) == 0) return {};
    return QuantSpec::parse_activations(kActivations[engine_() % kActivations.size()]);
  }

  std::optional<crumb::AccumulatorGoal> goal_or_none() {
    if (below(2) == 0) return std::nullopt;
    return crumb::AccumulatorGoal{.bits = 2 + below(62),
                                  .method = static_cast<crumb::AccumulatorGoal::Method>(below(2)),
                                  .tile = below(2) * below(100)};
  }

  std::optional<crumb::PruneGoal> prune_or_none() {
    if (below(2) == 0) return std::nullopt;
    crumb::PruneGoal goal{.share = below(1000) / 1000.0,
                          .scope = static_cast<crumb::PruneGoal::Scope>(below(2)),
                          .steps = 1 + below(30),
                          .rewind = below(2) == 0};
    if (goal.scope == crumb::PruneGoal::Scope::kGlobal) goal.floor = (1 - goal.share) * below(8) / 7.0;
    return goal;
  }

  std::optional<crumb::BitBudget> budget_or_none() {
    crumb::BitBudget budget;
    switch (below(4)) {
      case 0: budget.bits_per_weight = (1 + below(8000)) / 1000.0; break;
      case 1: budget.bytes = uint64_t{engine_()} * (below(2) == 0 ? 1000 : 1) + 1; break;
      case 2: budget.bops = uint64_t{engine_()} * 1000 + 1; break;
      default: return std::nullopt;
    }
    budget.least = 2 + below(3);
    budget.most = budget.least + below(5);
    return budget;
  }

  Rule rule() {
    Rule rule{.weights = spec_or_keep(), .optional = below(2) == 0, .origin = "somewhere"};
    for (int i = below(7); i > 0; --i) rule.match.name.push_back(pattern());
    for (int i = below(3); i > 0; --i) rule.match.role.push_back(static_cast<Rule::Role>(below(3)));
    static const std::vector<std::string> kOperators = {"Conv", "Linear", "MatMul", "null", "LSTM"};
    for (int i = below(6); i > 0; --i) rule.match.op.push_back(kOperators[engine_() % kOperators.size()]);
    if (below(3) == 0) rule.match.depthwise = below(2) == 0;
    if (rule.match == Rule::Match{}) rule.match.name = {""};
    if (below(2) == 0 && !rule.skips()) rule.activations.emplace(activations_or_keep());
    if (below(3) == 0 && !rule.skips()) rule.accumulator.emplace(goal_or_none());
    if (below(3) == 0 && !rule.skips()) rule.scales = static_cast<crumb::WeightScales>(below(4));
    if (below(3) == 0 && !rule.skips()) rule.prune.emplace(prune_or_none());
    if (below(3) == 0 && !rule.skips()) rule.learned_bits = below(2) == 0;
    if ((rule.activations || rule.is_for_training()) && below(2) == 0) {
      rule.leaves_weights = true;
      rule.weights = {};
    }
    return rule;
  }

  std::string pattern() {
    static const std::vector<std::string> kOdd = {"null",
                                                  "~",
                                                  "true",
                                                  "12",
                                                  "",
                                                  " ",
                                                  "- a",
                                                  "a: b",
                                                  "#x",
                                                  "[a]",
                                                  "{",
                                                  "!t",
                                                  "&a",
                                                  "*",
                                                  "a\nb",
                                                  "a\tb",
                                                  "'",
                                                  "\"",
                                                  "\\\\",
                                                  "%",
                                                  "@",
                                                  "`",
                                                  "re:.*",
                                                  "re:a[\\d]{2,3}",
                                                  "size/größe.重み",
                                                  "x\x01y",
                                                  "\x7f",
                                                  "---",
                                                  "..."};
    if (below(2) == 0) return kOdd[engine_() % kOdd.size()];
    std::string text;
    for (int i = below(12); i > 0; --i) append(text);
    return crumb::escape_glob(text);
  }

  /// Any code point.
  void append(std::string& text) {
    static constexpr uint32_t kMost[] = {0x80, 0x800, 0x10000, 0x110000};
    uint32_t c = engine_() % kMost[below(4)];
    if (c >= 0xd800 && c < 0xe000) c = 0x2028;
    const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (c >> shift & 0x3f)); };
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += static_cast<char>(0xc0 | c >> 6);
    } else if (c < 0x10000) {
      text += static_cast<char>(0xe0 | c >> 12);
      tail(6);
    } else {
      text += static_cast<char>(0xf0 | c >> 18);
      tail(12);
      tail(6);
    }
    if (c >= 0x80) tail(0);
  }

  std::mt19937 engine_;
};

}  // namespace

TEST_CASE("recipe: everything that may stand in it is understood") {
  const Recipe recipe = parse_recipe(kSample, "mine.yaml");
  CHECK(recipe.weights == QuantSpec::parse("int4:channel"));
  CHECK_FALSE(recipe.embeddings);
  CHECK(recipe.zstd == 9);
  REQUIRE(recipe.rules.size() == 4);
  CHECK(recipe.rules[0].match.name == std::vector<std::string>{"stem", "head"});
  CHECK(recipe.rules[0].match.role.empty());
  CHECK(recipe.rules[0].weights == QuantSpec::parse("int8:channel"));
  CHECK_FALSE(recipe.rules[0].optional);
  CHECK(recipe.rules[1].match.name == std::vector<std::string>{R"(re:.*\.(query|key)\.weight)"});
  CHECK(recipe.rules[1].match.role == std::vector{Rule::Role::kWeight});
  CHECK(recipe.rules[2].match.name.empty());
  CHECK(recipe.rules[2].match.role == std::vector{Rule::Role::kEmbedding, Rule::Role::kAny});
  CHECK(recipe.rules[2].weights->percentile == 99.5);
  CHECK_FALSE(recipe.rules[3].weights);
  CHECK(recipe.rules[3].optional);
  CHECK(says(recipe.rules[3].origin, {"mine.yaml", "line 13"}));
}

TEST_CASE("recipe: what is left out has its default") {
  const Recipe recipe = parse_recipe("weights: int4", "r");
  CHECK(recipe.embeddings == QuantSpec::parse("int8:channel"));
  CHECK(recipe.zstd == 0);
  CHECK(recipe.rules.empty());
  CHECK(parse_recipe("\xEF\xBB\xBFweights: int4\r\nrules: []\r\n", "r") == recipe);
  CHECK(parse_recipe("--- # one\n{\"version\": 1, 'weights': int4}\n...\n", "r") == recipe);
}

TEST_CASE("recipe: what is printed is read as the same") {
  RandomRecipes random(3);
  for (int round = 0; round < 500; ++round) {
    const Recipe recipe = random.recipe();
    const std::string text = to_yaml(recipe);
    CAPTURE(text);
    const Recipe back = parse_recipe(text, "printed");
    REQUIRE(back == recipe);
    REQUIRE(to_yaml(back) == text);
    REQUIRE(parse_recipe(to_commented_yaml(recipe), "printed") == recipe);
  }
}

TEST_CASE("recipe: what has no value of its own is not printed") {
  const std::string text =
      to_yaml(parse_recipe("weights: int4\naccumulator: {bits: 16}\nprune: {share: 0.5}\n", "r"));
  CHECK(text ==
        "version: 1\nweights: int4:channel\nembeddings: int8:channel\nzstd: off\n"
        "accumulator: 16:a2q_plus\nprune: 0.5:global\n");
}

TEST_CASE("recipe: any tensor's name can be named exactly, however many there are") {
  std::vector<std::string> names = {"a*b",
                                    "re:x",
                                    "[t]",
                                    "back\\slash",
                                    "new\nline.weight",
                                    "?",
                                    "größe.重み",
                                    std::string("nul\0x", 5),
                                    "",
                                    std::string(5000, 'x')};
  for (int i = 0; i < 20000; ++i) names.push_back("model.layers." + std::to_string(i) + ".experts.weight");
  Recipe recipe{.weights = QuantSpec::parse("int4")};
  recipe.rules.push_back(crumb::rule_for_tensors(names, QuantSpec::parse("int8")));
  const Recipe back = parse_recipe(to_yaml(recipe), "printed");
  CHECK(back == recipe);
  for (size_t i = 0; i < names.size(); ++i) {
    const crumb::NamePattern pattern(back.rules[0].match.name[i]);
    REQUIRE(pattern.literal() == names[i]);
    REQUIRE(pattern.matches(names[i]));
  }
}

TEST_CASE("recipe: presets are recipes, in the comments' company too") {
  for (const crumb::Scheme& scheme : crumb::schemes()) {
    const Recipe recipe = crumb::preset_recipe(scheme.name);
    Recipe expected{.weights = QuantSpec::parse(scheme.spec)};
    if (!scheme.activations.empty()) {
      expected.activations = QuantSpec::parse_activations(scheme.activations);
    }
    expected.bias_bits = scheme.bias_bits;
    if (scheme.name.starts_with("gguf:")) expected.embeddings = QuantSpec::parse("int8:group=32");
    if (scheme.name == "finn") expected.average_pools = Recipe::AveragePools::kTruncate;
    CHECK(recipe == expected);
    CHECK(parse_recipe(to_commented_yaml(recipe), "r") == recipe);
  }
}

TEST_CASE("recipe: files") {
  const crumb::testing::TempDir folder;
  const auto path = folder.path() / "mine.yaml";
  std::ofstream(path) << kSample;
  CHECK(Recipe::load(path) == parse_recipe(kSample, "mine.yaml"));
  for (const auto& bad : {folder.path(), folder.path() / "missing.yaml"}) {
    try {
      (void)Recipe::load(bad);
      FAIL("no error");
    } catch (const crumb::Error& error) {
      CHECK(error.kind() == crumb::ErrorKind::kUsage);
      CHECK(says(error.what(), {bad.c_str()}));
    }
  }
}

TEST_CASE("recipe: truncations and random changes give a recipe or an Error of usage") {
  for (size_t size = 0; size < kSample.size(); ++size)
    (void)refusal(std::string_view(kSample).substr(0, size));
  std::mt19937 engine(17);
  static const std::vector<std::string> kParts = {
      "{", "}",  "[", "]",  ": ", ", ", "\n",  "  ", "- ",   "&a",       "*a",     "|",      ">",   "!",
      "'", "\"", "#", "\\", "%",  "? ", "---", "\t", "\xff", "\xc3\xb6", "rules:", "match:", "re:", "true"};
  size_t taken = 0;
  for (int round = 0; round < 8000; ++round) {
    std::string text = kSample;
    for (unsigned k = 1 + engine() % 4; k > 0; --k) {
      const size_t at = engine() % text.size();
      switch (engine() % 4) {
        case 0: text[at] = static_cast<char>(engine()); break;
        case 1: text.erase(at, 1 + engine() % 8); break;
        case 2: text.insert(at, kParts[engine() % kParts.size()]); break;
        default: text.insert(at, text.substr(engine() % text.size(), engine() % 60)); break;
      }
      if (text.empty()) text = " ";
    }
    const std::string message = refusal(text);
    if (!message.empty()) continue;
    ++taken;
    const Recipe recipe = parse_recipe(text, "r");
    REQUIRE(parse_recipe(to_yaml(recipe), "printed") == recipe);
  }
  CHECK(taken > 100);  // changes of comments and the like
}

TEST_CASE("recipe: every field has a line of help; the flags are those of the table") {
  const auto check = [](const auto& rows) {
    for (const crumb::FieldInfo& field : rows) {
      CAPTURE(field.key);
      CHECK_FALSE(field.help.empty());
      CHECK_FALSE(field.example.empty());
    }
  };
  check(crumb::fields_of<Recipe>());
  check(crumb::fields_of<Rule>());
  check(crumb::fields_of<Rule::Match>());
  check(crumb::fields_of<crumb::AccumulatorGoal>());
  check(crumb::fields_of<crumb::PruneGoal>());
  check(crumb::fields_of<crumb::BitBudget>());
  // An example is what may stand there.
  for (const auto& field : crumb::fields_of<Recipe>()) {
    const std::string line = std::string(field.key) + ": " + std::string(field.example) + "\n";
    CHECK(refusal(line + (field.key == "weights" ? "" : "weights: int4\n")) == "");
  }
  for (const auto& field : crumb::fields_of<Rule>()) {
    const std::string key(field.key);
    if (key == "match" || key == "skip") continue;
    CHECK(refusal(with_rule("{match: {name: a}, " + key + ": " + std::string(field.example) +
                            (key == "optional" ? ", skip: true}" : "}"))) == "");
  }
  for (const auto& field : crumb::fields_of<crumb::AccumulatorGoal>()) {
    const std::string bits = field.key == "bits" ? "" : "bits: 16, ";
    CHECK(refusal("weights: int4\naccumulator: {" + bits + std::string(field.key) + ": " +
                  std::string(field.example) + "}") == "");
  }
  for (const auto& field : crumb::fields_of<crumb::PruneGoal>()) {
    const std::string share = field.key == "share" ? "" : "share: 0.5, ", value(field.example);
    const std::string scope = field.key == "floor" ? ", scope: global" : "";
    CHECK(refusal("weights: int4\nprune: {" + share + std::string(field.key) + ": " + value + scope + "}") ==
          "");
  }
  for (const auto& field : crumb::fields_of<crumb::BitBudget>()) {
    const std::string budget = field.key == "budget" ? "" : "budget: 3bpw, ", value(field.example);
    CHECK(refusal("weights: int4\nlearned_bits: {" + budget + std::string(field.key) + ": " + value + "}") ==
          "");
  }
  for (const auto& field : crumb::fields_of<Rule::Match>()) {
    CHECK(refusal(with_rule("{match: {" + std::string(field.key) + ": " + std::string(field.example) +
                            "}, skip: true}")) == "");
  }
}
