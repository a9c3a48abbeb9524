// Recipes: YAML in and out, the message of everything that is wrong, and bytes from nowhere.
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

TEST_CASE("recipe: unknown and repeated keys say file, line, key and the nearest or the first") {
  CHECK(says(refusal("version: 1\nwieghts: int4"), {"'mine.yaml' line 2", "'wieghts'", "'weights'"}));
  CHECK(says(refusal("weights: int4\nzsdt: 3"), {"line 2", "'zsdt'", "'zstd'"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, weigths: int4}")), {"line 3", "'weigths'", "'weights'"}));
  CHECK(says(refusal(with_rule("{match: {nmae: a}, skip: true}")), {"line 3", "'nmae'", "'name'"}));
  CHECK(
      says(refusal("weights: int4\nversion: 1\nweights: int8"), {"line 3", "'weights'", "twice", "line 1"}));
  CHECK(says(refusal(with_rule("{name: a, skip: true}")), {"line 3", "'name'", "belongs to match"}));
  CHECK(says(refusal(with_rule("match: {name: a}\n    skip: true\n    skip: true")),
             {"line 5", "'skip'", "twice", "line 4"}));
  CHECK(says(refusal(with_rule("match:\n      name: a\n      name: b\n    skip: true")),
             {"line 5", "'name'", "twice", "line 4"}));
  CHECK(says(refusal("? weights\n: int4\n\"weights\": int8"), {"line 3", "'weights'", "twice", "line 1"}));
}

TEST_CASE("recipe: what comes later is refused with not yet, line and key") {
  CHECK(says(refusal("weights: int4\nstages:\n  - gptq: {}"), {"line 2", "'stages'", "not yet"}));
}

TEST_CASE("recipe: what graphs have beside tensors") {
  const Recipe recipe = parse_recipe(R"(weights: int4
activations: uint8
inputs: keep
biases: int32
batch_norm: keep
rules:
  - {match: {op: [Conv, Linear], depthwise: true}, weights: int8, activations: keep}
  - {match: {op: Relu}, activations: "uint4:search=ema"}
  - {match: {depthwise: false, name: "stem"}, skip: true}
)",
                                     "r");
  CHECK(recipe.activations->to_string() == "uint8:tensor");
  REQUIRE(recipe.inputs);
  CHECK_FALSE(*recipe.inputs);
  CHECK(recipe.bias_bits == 32);
  CHECK(recipe.batch_norm == Recipe::BatchNorm::kKeep);
  CHECK(recipe.rules[0].match.op == std::vector<std::string>{"Conv", "Linear"});
  CHECK(recipe.rules[0].match.depthwise == true);
  REQUIRE(recipe.rules[0].activations);
  CHECK_FALSE(*recipe.rules[0].activations);
  CHECK(recipe.rules[1].leaves_weights);
  CHECK_FALSE(recipe.rules[1].skips());
  CHECK((*recipe.rules[1].activations)->search == crumb::Search::kEma);
  CHECK(recipe.rules[2].skips());
  CHECK(parse_recipe(to_yaml(recipe), "r") == recipe);

  const Recipe plain = parse_recipe("weights: int4", "r");
  CHECK_FALSE(plain.activations);
  CHECK_FALSE(plain.inputs);
  CHECK(to_yaml(plain).find("activations") == std::string::npos);

  const std::string weights = "weights: int4\n";
  CHECK(says(refusal(weights + "activations: uint44"), {"line 2", "activations", "'uint44'", "uint4"}));
  CHECK(says(refusal(weights + "activations: uint8:channel"), {"line 2", "channel", "not yet"}));
  CHECK(says(refusal(weights + "activations: uint8:group=8"), {"line 2", "group", "not"}));
  CHECK(says(refusal(weights + "activations: mxfp8_e4m3"), {"line 2", "not supported yet"}));
  CHECK(says(refusal(weights + "activations: int8:search=hqo"), {"line 2", "hqo", "absmax"}));
  CHECK(says(refusal(weights + "activations: nf4"), {"line 2", "nf4"}));
  CHECK(says(refusal("weights: int4:search=ema"), {"line 1", "ema", "activations"}));
  for (const char* biases : {"int1", "int33", "uint8", "int", "32", "int08", "int-8", "int999"}) {
    CHECK(says(refusal(weights + "biases: " + biases), {"line 2", "biases", biases, "int32"}));
  }
  CHECK(says(refusal(weights + "batch_norm: yes"), {"line 2", "batch_norm", "'yes'", "fold"}));
  CHECK(says(refusal(with_rule("{match: {op: \"Co nv\"}, skip: true}")), {"line 3", "op", "'Co nv'"}));
  CHECK(says(refusal(with_rule("{match: {op: Conv}, skip: true, activations: uint8}")),
             {"line 3", "activations", "skip"}));
  CHECK(says(refusal(with_rule("{match: {op: Conv}}")), {"line 3", "weights", "activations", "skip"}));
}

TEST_CASE("recipe: wrong values say line, key, what was found and what was expected") {
  CHECK(says(refusal("version: 2\nweights: int4"), {"line 1", "version", "expected 1", "'2'"}));
  CHECK(says(refusal("weights: int44"), {"line 1", "weights", "'int44'", "'int4'"}));
  CHECK(says(refusal("weights: \"int4\\e[2J\\n\""), {"line 1", "weights", "int4\\x1b[2J"}));
  CHECK(says(refusal("weights: [int4]"), {"line 1", "weights", "SPEC", "a list"}));
  CHECK(says(refusal("weights:"), {"line 1", "weights", "SPEC", "nothing"}));
  CHECK(says(refusal("weights: {a: b}"), {"line 1", "weights", "a map"}));
  CHECK(says(refusal("weights: int4\nembeddings: kep"), {"line 2", "embeddings", "'kep'"}));
  for (const char* level : {"0", "20", "-3", "on", "1.5", "''", "0x3", "99999999999"}) {
    CHECK(says(refusal("weights: int4\nzstd: " + std::string(level)), {"line 2", "zstd", "1 to 19"}));
  }
  CHECK(says(refusal("embeddings: keep"), {"line 1", "'weights'", "int4:group=128"}));
  CHECK(says(refusal("weights: int4\nrules: {match: {name: a}, skip: true}"),
             {"line 2", "rules", "a list", "a map"}));
  CHECK(says(refusal("weights: int4\nrules:\n  - a"), {"line 3", "rule", "map", "'a'"}));
  CHECK(says(refusal(with_rule("{skip: true}")), {"line 3", "'match'"}));
  CHECK(says(refusal(with_rule("{match: stem, skip: true}")), {"line 3", "match", "a map", "'stem'"}));
  CHECK(says(refusal(with_rule("{match: {}, skip: true}")), {"line 3", "name", "role"}));
  CHECK(says(refusal(with_rule("{match: {name: []}, skip: true}")), {"line 3", "name", "empty list"}));
  CHECK(says(refusal(with_rule("{match: {name: [[a]]}, skip: true}")), {"line 3", "name", "a list"}));
  CHECK(says(refusal(with_rule("{match: {name: null}, skip: true}")), {"line 3", "name", "nothing"}));
  CHECK(says(refusal(with_rule("{match: {name: 're:a('}, skip: true}")), {"line 3", "name", "'('"}));
  CHECK(says(refusal(with_rule("match:\n      name:\n        - a\n        - 're:*'\n    skip: true")),
             {"line 6", "name", "repetition"}));
  CHECK(says(refusal(with_rule("{match: {role: wieght}, skip: true}")),
             {"line 3", "role", "'wieght'", "'weight'"}));
  CHECK(says(refusal(with_rule("{match: {name: a}}")), {"line 3", "neither"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, weights: int4, skip: true}")), {"line 3", "both"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, weights: keep}")), {"line 3", "weights", "skip: true"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, skip: false}")), {"line 3", "skip", "expected true"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, skip: yes}")),
             {"line 3", "skip", "true or false", "'yes'"}));
  CHECK(
      says(refusal(with_rule("{match: {name: a}, skip: true, optional: 1}")), {"line 3", "optional", "'1'"}));
}

TEST_CASE("recipe: every limit, by the last that is taken and the first that is not") {
  const struct {
    const char* key;
    std::vector<std::string> taken, refused;
  } rows[] = {
      {"zstd", {"1", "9", "10", "19", "off"}, {"0", "20", "001", "-1"}},
      {"biases", {"int2", "int9", "int10", "int32", "keep"}, {"int1", "int33", "int02", "int100", "in32"}},
      {"accumulator",
       {"2", "63", "63:a2q:tile=1", "8:a2q_plus:tile=2147483647", "none"},
       {"1", "64", "8:tile=0", "8:tile=2147483648", "8:tile=4:a2q", "8:a2q:a2q", "8:tile=4:tile=4",
        "8:", "+8"}},
      {"prune",
       {"0", "0.999999999", "5e-1", "0.5:steps=1", "0.5:steps=1000000", "0:floor=1", "0.9:floor=0.1", "none"},
       {"1", "1e0", "0.5:steps=0", "0.5:steps=1000001", "0:floor=1.000001", "0.9:floor=0.100001", "-0.1",
        "+0.1", "0.5:steps=4:steps=4", "0.5:floor=0.1:floor=0.1", "nan", "1e-999x",
        "0.50000000000000000000000000000000000"}},
      {"learned_bits",
       {"1bpw", "3bpw:least=2", "3bpw:most=8", "3bpw:least=4:most=4", "1bops", "1kbops", "1000000Tbops",
        "0.5bops", "1 Gbops"},
       {"3bpw:least=1", "3bpw:most=9", "3bpw:least=5:most=4", "0.49bops", "1000000.001Tbops", "1ebops",
        "bop"}},
  };
  for (const auto& row : rows) {
    for (const bool good : {true, false}) {
      for (const std::string& value : good ? row.taken : row.refused) {
        CAPTURE(row.key);
        CAPTURE(value);
        CHECK((refusal("weights: int4\n" + std::string(row.key) + ": \"" + value + "\"") == "") == good);
      }
    }
  }
  CHECK(to_string(crumb::parse_learned_bits("1000000Tbops")) == "1000000000000000000bops");
  CHECK(to_string(crumb::parse_learned_bits("2kbops")) == "2000bops");
  CHECK(to_string(crumb::parse_learned_bits("2Gbops")) == "2000000000bops");
  CHECK(to_string(crumb::parse_learned_bits("2GB")) == "2GB");
  CHECK(to_string(crumb::parse_learned_bits("2500kB")) == "2500kB");
  CHECK(to_string(crumb::parse_learned_bits("3000MB")) == "3GB");
  CHECK(to_string(crumb::parse_prune("0.5:steps=10:floor=0")) == "0.5:global");
  CHECK(to_string(crumb::parse_accumulator("8")) == "8:a2q_plus");

  const auto takes_operator = [](const std::string& name) {
    return refusal(with_rule("{match: {op: \"" + name + "\"}, skip: true}")) == "";
  };
  CHECK(takes_operator(std::string(64, 'a')));
  CHECK_FALSE(takes_operator(std::string(65, 'a')));
  CHECK_FALSE(takes_operator(""));
  for (int c = ' '; c < 127; ++c) {
    if (c == '"' || c == '\\') continue;
    CAPTURE(c);
    CHECK(takes_operator(std::string("A") + static_cast<char>(c)) == (std::isalnum(c) != 0 || c == '_'));
  }
  const std::string most = "weights: int4\n" + std::string(Recipe::kMaxBytes - 14, '#');
  CHECK(refusal(most) == "");
  CHECK_FALSE(refusal(most + "#").empty());
  for (const char* yes : {"true", "True", "TRUE"}) {
    CHECK(parse_recipe(with_rule("{match: {name: a}, skip: true, optional: " + std::string(yes) + "}"), "r")
              .rules[0]
              .optional);
  }
  for (const char* no : {"false", "False", "FALSE"}) {
    CHECK_FALSE(
        parse_recipe(with_rule("{match: {name: a}, skip: true, optional: " + std::string(no) + "}"), "r")
            .rules[0]
            .optional);
  }
}

TEST_CASE("recipe: of the control characters, tabs and ends of lines alone") {
  for (int byte = 0; byte < 0x80; ++byte) {
    const char c = static_cast<char>(byte);
    if (c == '\n') continue;
    CAPTURE(byte);
    const std::string said = refusal(std::string("weights: int4\nzstd: 3  # a") + c + "\n");
    if (c == '\t' || c == '\r' || (byte >= 0x20 && byte < 0x7f)) {
      CHECK(said == "");
    } else {
      CHECK(says(said, {"line 2", "control"}));
    }
  }
}

TEST_CASE("recipe: what is wrong is said in characters that can be printed") {
  for (int byte = 1; byte < 0x100; ++byte) {
    const std::string c = byte < 0x80 ? std::string(1, static_cast<char>(byte))
                                      : std::string{static_cast<char>(0xc0 | byte >> 6),
                                                    static_cast<char>(0x80 | (byte & 0x3f))};
    CAPTURE(byte);
    const std::string said = refusal("weights: \"\\" + c + "\"\n");  // an escape that YAML may not know
    const auto prints = [](char s) { return s == '\n' || (s >= 0x20 && s < 0x7f); };
    if (said.find("not YAML") != std::string::npos) CHECK(std::ranges::all_of(said, prints));
    if (byte >= 0xa1) CHECK(says(said, {"not YAML", "?"}));
  }
}

TEST_CASE("recipe: what is no recipe at all") {
  for (const char* empty : {"", " \n", "# only a comment\n", "---\n", "--- ~\n...\n"}) {
    CHECK(says(refusal(empty), {"mine.yaml", "empty", "weights"}));
  }
  CHECK(says(refusal("- weights: int4"), {"line 1", "map", "a list"}));
  CHECK(says(refusal("weights"), {"line 1", "map", "'weights'"}));
  CHECK(says(refusal("weights: int4\n---\nweights: int8"), {"line 3", "second document"}));
  CHECK(says(refusal("rules:\n\t- a"), {"line 2", "tab"}));
  CHECK(says(refusal(std::string_view("weights: int4\n\0", 15)), {"line 2", "control"}));
  CHECK(says(refusal("weights: int4\nrules: \xff"), {"line 2", "UTF-8"}));
  CHECK(says(refusal(std::string_view("w\0e\0", 4)), {"line 1", "control"}));  // UTF-16
  CHECK(says(refusal("weights: &a int4"), {"line 1", "anchor"}));
  CHECK(says(refusal("weights: *a"), {"line 1"}));
  CHECK(says(refusal("weights: !!str int4"), {"line 1", "tag"}));
  CHECK(says(refusal("weights: 'int4"), {"line 1", "the quote ' is not closed"}));
  CHECK(says(refusal("weights: int4  # a\nrules: 'b"), {"line 2", "the quote ' is not closed"}));
  CHECK(says(refusal("a: b: c"), {"line 1", "not YAML"}));
  CHECK(says(refusal("weights: int4\nrules: " + std::string(100000, '[')), {"line 2"}));
  std::string deep;
  for (size_t i = 0; i < 300; ++i) deep += std::string(i, ' ') + "a:\n";
  CHECK(says(refusal(deep), {"16 levels"}));
  CHECK(says(refusal(std::string(Recipe::kMaxBytes + 1, ' ')), {"bytes"}));
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string n = std::to_string(i), before = "*a" + std::to_string(i - 1);
    laughs += "a" + n + ": &a" + n + " [" + before + ", " + before + ", " + before + "]\n";
  }
  CHECK_FALSE(refusal(laughs).empty());
}

TEST_CASE("recipe: a # begins a comment behind a space, not behind a quote") {
  for (const std::string quote : {"'", "\""}) {
    for (const std::string other : {"'", "\""}) {
      const std::string begin = "weights: int4\nrules: [{match: {name: [" + quote + "a" + quote,
                        rest = "#, " + other + "b\n]}, skip: true}]\n";
      CAPTURE(begin + rest);
      CHECK(says(refusal(begin + rest), {"line 2", ("the quote " + other + " is not closed").c_str()}));
      for (const char* space : {" ", "\t", "\n", "\r\n"}) CHECK(refusal(begin + space + rest) == "");
    }
  }
}

TEST_CASE("recipe: a quote that ends in another line is blamed for what is wrong behind it") {
  CHECK(says(refusal("weights: 'int4\nembeddings: 'keep'\n"), {"the quote in line 1 is not closed there"}));
  CHECK(says(refusal("\nweights: 'int4'\na: b: c"), {"line 3", "not YAML"}));
  CHECK(refusal("\nweights: 'int4'\na: b: c").find("quote") == std::string::npos);
}

TEST_CASE("recipe: brackets and quotes inside of a plain word open and close nothing") {
  for (const char* word : {"b], 'c", "b}, 'c", "b], [\"c", "it's", "a[, 'b"}) {
    CAPTURE(word);
    CHECK(refusal(std::string("weights: int4\nrules:\n  - match:\n      name: ") + word +
                  "\n    skip: true\n") == "");
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
      if (field.kind != crumb::FieldKind::kNotYet) CHECK_FALSE(field.example.empty());
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
    if (field.kind == crumb::FieldKind::kNotYet) continue;
    const std::string line = std::string(field.key) + ": " + std::string(field.example) + "\n";
    CHECK(refusal(line + (field.key == "weights" ? "" : "weights: int4\n")) == "");
  }
  for (const auto& field : crumb::fields_of<Rule>()) {
    const std::string key(field.key);
    if (key == "match" || key == "skip" || field.kind == crumb::FieldKind::kNotYet) continue;
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
    if (field.kind == crumb::FieldKind::kNotYet) continue;
    CHECK(refusal(with_rule("{match: {" + std::string(field.key) + ": " + std::string(field.example) +
                            "}, skip: true}")) == "");
  }
}
