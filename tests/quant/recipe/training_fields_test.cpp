// What recipes say of training: accumulators, scales, pruning, learned widths.
#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "quant/recipe/recipe.h"
#include "tests/quant/recipe/refusal.h"
#include "tests/support/samples.h"

using crumb::parse_recipe;
using crumb::Recipe;
using crumb::testing::refusal;
using crumb::testing::says;
using crumb::testing::with_rule;

TEST_CASE("recipe: what is for training") {
  using Method = crumb::AccumulatorGoal::Method;
  const Recipe recipe = parse_recipe(R"(weights: int4
accumulator: 16
scales: weight_norm
rules:
  - {match: {name: a}, accumulator: {bits: 12, method: a2q, tile: 64}}
  - {match: {name: b}, weights: int8, accumulator: none, scales: mean}
  - {match: {name: c}, accumulator: {bits: 9}}
  - match: {name: d}
    scales: statistics
)",
                                     "r");
  CHECK(recipe.accumulator == crumb::AccumulatorGoal{.bits = 16, .method = Method::kA2qPlus, .tile = 0});
  CHECK(recipe.scales == crumb::WeightScales::kNorm);
  CHECK(**recipe.rules[0].accumulator ==
        crumb::AccumulatorGoal{.bits = 12, .method = Method::kA2q, .tile = 64});
  CHECK(recipe.rules[0].leaves_weights);
  CHECK_FALSE(recipe.rules[0].skips());
  CHECK(recipe.rules[0].is_for_training());
  REQUIRE(recipe.rules[1].accumulator);
  CHECK_FALSE(*recipe.rules[1].accumulator);
  CHECK(recipe.rules[1].scales == crumb::WeightScales::kMean);
  CHECK(recipe.rules[2].accumulator->value().bits == 9);
  CHECK(recipe.rules[3].scales == crumb::WeightScales::kStatistics);
  CHECK(parse_recipe(to_yaml(recipe), "r") == recipe);
  const Recipe plain = parse_recipe("weights: int4", "r");
  CHECK_FALSE(plain.accumulator);
  CHECK(plain.scales == crumb::WeightScales::kLearned);

  CHECK_NOTHROW(crumb::refuse_training_fields(plain));
  const auto refused = [](const std::string& text) {
    try {
      crumb::refuse_training_fields(parse_recipe(text, "mine.yaml"));
    } catch (const crumb::Error& error) {
      CHECK(error.kind() == crumb::ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(says(refused("weights: int4\naccumulator: 16"), {"16:a2q_plus", "training"}));
  CHECK(says(refused("weights: int4\nscales: mean"), {"scales: mean", "training"}));
  CHECK(says(refused(with_rule("{match: {name: a}, scales: learned}")), {"learned", "line 3"}));
  CHECK(says(refused(with_rule("{match: {name: a}, accumulator: none}")), {"none", "line 3"}));

  const std::string weights = "weights: int4\n";
  for (const char* bad : {"1", "64", "0x10", "-3", "a2q", "99999999999", "16:a2q:a2q", "16:tile=4:a2q"}) {
    CHECK(says(refusal(weights + "accumulator: \"" + bad + "\""), {"line 2", "accumulator", "expected"}));
  }
  CHECK(says(refusal(weights + "accumulator: \"16:a2q+\""), {"line 2", "'a2q+'", "a2q_plus"}));
  CHECK(says(refusal(weights + "accumulator: \"16:a2q:tile=0\""), {"line 2", "tile", "'0'"}));
  CHECK(says(refusal(weights + "accumulator: {bits: 16, mehtod: a2q}"), {"line 2", "'mehtod'", "'method'"}));
  CHECK(says(refusal(weights + "accumulator: {method: a2q}"), {"line 2", "bits", "16"}));
  CHECK(says(refusal(weights + "accumulator: {bits: \"16:a2q\"}"), {"line 2", "bits", "'16:a2q'"}));
  CHECK(says(refusal(weights + "accumulator: [16]"), {"line 2", "accumulator", "a list"}));
  CHECK(says(refusal(weights + "scales: lerned"), {"line 2", "'lerned'", "'learned'"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, skip: true, accumulator: none}")),
             {"line 3", "accumulator", "skip"}));
}

TEST_CASE("recipe: pruning") {
  using Scope = crumb::PruneGoal::Scope;
  const Recipe recipe = parse_recipe(R"(weights: keep
prune: 0.8
rules:
  - {match: {name: a}, prune: {share: 0.95, floor: 0.02, steps: 8, rewind: true}}
  - {match: {name: b}, prune: "0.5:layer:rewind"}
  - {match: {name: c}, prune: none}
)",
                                     "r");
  CHECK(recipe.prune == crumb::PruneGoal{.share = 0.8, .scope = Scope::kGlobal, .steps = 10});
  CHECK(**recipe.rules[0].prune ==
        crumb::PruneGoal{.share = 0.95, .steps = 8, .rewind = true, .floor = 0.02});
  CHECK(**recipe.rules[1].prune == crumb::PruneGoal{.share = 0.5, .scope = Scope::kLayer, .rewind = true});
  CHECK(recipe.rules[1].leaves_weights);
  CHECK(recipe.rules[1].is_for_training());
  REQUIRE(recipe.rules[2].prune);
  CHECK_FALSE(*recipe.rules[2].prune);
  CHECK(parse_recipe(to_yaml(recipe), "r") == recipe);
  CHECK(to_string(recipe.prune) == "0.8:global");
  CHECK(to_string(*recipe.rules[0].prune) == "0.95:global:steps=8:rewind:floor=0.02");
  CHECK_FALSE(parse_recipe("weights: int4", "r").prune);
  CHECK(crumb::parse_prune("0.8:floor=0.2")->floor == 0.2);  // together everything

  for (const char* text :
       {"weights: int4\nprune: 0.5", "weights: int4\nrules: [{match: {name: a}, prune: 0.5}]"}) {
    CHECK_THROWS_WITH_AS(crumb::refuse_training_fields(parse_recipe(text, "mine.yaml")),
                         doctest::Contains("prune: 0.5:global"), crumb::Error);
  }
  const std::string weights = "weights: int4\n";
  for (const char* bad :
       {"1", "1.5", "-1", "-0", "nan", "inf", "0x1p-1", "", "half", "1e400", "0.5.5", "80%"}) {
    CAPTURE(std::string(bad));
    CHECK(says(refusal(weights + "prune: \"" + bad + "\""), {"line 2", "prune", "expected", "0.8"}));
  }
  const auto refused = [&](const std::string& goal, std::initializer_list<const char*> words) {
    const std::string message = refusal(weights + "prune: " + goal);
    return says(message, words) && says(message, {"line 2"});
  };
  CHECK(refused("\"0.5:globl\"", {"'globl'", "'global'"}));
  CHECK(refused("\"0.5:steps=0\"", {"steps", "'0'"}));
  CHECK(refused("\"0.5:steps=9999999999\"", {"steps", "'9999999999'"}));
  CHECK(refused("\"0.5:layer:global\"", {"once"}));
  CHECK(refused("\"0.5:rewind:rewind\"", {"'rewind'", "once"}));
  CHECK(refused("\"0.5:floor=2\"", {"floor", "'2'"}));
  CHECK(refused("\"0.5:layer:floor=0.1\"", {"floor", "global"}));
  CHECK(refused("\"0.95:floor=0.1\"", {"0.1", "0.95"}));
  CHECK(refused("{share: 0.95, floor: 0.1}", {"prune", "0.1", "0.95"}));
  CHECK(refused("{scope: layer}", {"share", "0.8"}));
  CHECK(refused("{share: 0.5, scoop: layer}", {"'scoop'", "'scope'"}));
  CHECK(refused("[0.5]", {"prune", "a list"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, skip: true, prune: 0.5}")), {"line 3", "prune", "skip"}));
}

TEST_CASE("recipe: learned widths") {
  const Recipe recipe = parse_recipe(R"(weights: int4
learned_bits: {budget: 3.50bpw, most: 6}
rules:
  - {match: {name: a}, learned_bits: false}
  - {match: {name: b}, weights: int6:tensor, learned_bits: true}
)",
                                     "r");
  CHECK(recipe.learned_bits == crumb::BitBudget{.bits_per_weight = 3.5, .most = 6});
  CHECK(recipe.rules[0].learned_bits == false);
  CHECK(recipe.rules[0].leaves_weights);
  CHECK(recipe.rules[1].learned_bits == true);
  CHECK(parse_recipe(to_yaml(recipe), "r") == recipe);
  CHECK_FALSE(parse_recipe("weights: int4\nlearned_bits: none", "r").learned_bits);
  const auto text = [](const char* of) { return to_string(crumb::parse_learned_bits(of)); };
  CHECK(text("3.5 BPW") == "3.5bpw");
  CHECK(text("12kb:least=3:most=3") == "12kB:least=3:most=3");
  CHECK(text("1.5KiB") == "1536B");
  CHECK(text("0.4Mbops:most=8") == "400000bops");
  CHECK(text("1.5 gBOPs") == "1500000000bops");
  CHECK(text("7bops") == "7bops");
  CHECK(text("none") == "none");
  for (const char* yaml : {"weights: int4\nlearned_bits: 3bpw",
                           "weights: int4\nrules: [{match: {name: a}, learned_bits: true}]"}) {
    CHECK_THROWS_WITH_AS(crumb::refuse_training_fields(parse_recipe(yaml, "mine.yaml")),
                         doctest::Contains("learned_bits"), crumb::Error);
  }
  const auto is_refused = [](const std::string& bad) {
    CAPTURE(bad);
    return says(refusal("weights: int4\nlearned_bits: \"" + bad + "\""), {"line 2", "learned_bits"});
  };
  for (const char* amount :
       {"", "3", "bpw", "0bpw", "-1bpw", "bops", "0bops", "1e9bops", "3.5.5kbops", "99999999Gbops0",
        "99999999999Gbops", "xkbops", "-3Mbops", "+3Mbops", "3 3bops", "3e1bops", "infbops"}) {
    CHECK(is_refused(amount));
  }
  for (const char* choice : {"3bpw:least", "3bpw:least=1", "3bpw:most=9", "3bpw:mots=4",
                             "3bpw:least=5:most=4", "3bpw:least=3:least=3", "3bpw:"}) {
    CHECK(is_refused(choice));
  }
  CHECK(says(refusal("weights: int4\nlearned_bits: 3bpw:mots=4"), {"'mots=4'", "'most=8'"}));
  CHECK(
      says(refusal("weights: int4\nlearned_bits: {budget: 3bpw, least: 6, most: 4}"), {"least=6", "most=4"}));
  CHECK(says(refusal("weights: int4\nlearned_bits: {least: 3}"), {"budget", "3.5bpw"}));
  CHECK(says(refusal("weights: int4\nlearned_bits: {budget: 3bpw:least=3}"), {"3bpw:least=3"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, learned_bits: 3bpw}")), {"line 3", "true or false"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, skip: true, learned_bits: true}")),
             {"line 3", "learned_bits", "skip"}));
}
