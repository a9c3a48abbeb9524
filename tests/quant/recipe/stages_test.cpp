// Stages of a recipe: what is drawn of the table is read back from text and from YAML.
#include "quant/recipe/stages.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>

#include "quant/recipe/recipe.h"

namespace crumb {
namespace {

double drawn(const StageOption& option, std::mt19937& random) {
  if (option.most && option.kind == StageOption::Kind::kCount)
    return option.least +
           static_cast<double>(random() % static_cast<unsigned>(*option.most - option.least + 1));
  if (option.most) return std::uniform_real_distribution<double>(1e-9, *option.most)(random);
  if (option.kind == StageOption::Kind::kCount)
    return option.least + static_cast<double>(random() % (random() % 2 == 0 ? 4 : 1000000));
  if (option.kind == StageOption::Kind::kSwitch) return static_cast<double>(random() % 2);
  if (option.kind == StageOption::Kind::kAmount && random() % 3 == 0) return 0;
  return std::pow(10.0, std::uniform_real_distribution<double>(-60, 60)(random));
}

TEST_CASE("stages: every stage of the table, with any of its options, comes back from text and from YAML") {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    Recipe recipe{.weights = QuantSpec::parse("int4")};
    std::string yaml = "weights: int4\nstages:\n";
    for (unsigned i = 0; i <= random() % 3; ++i) {
      const StageInfo& info = stage_infos()[random() % stage_infos().size()];
      Stage stage{.name = std::string(info.name), .options = {}};
      std::string options;
      for (const StageOption& option : info.options) {
        if (random() % 2 == 0) continue;
        const double value = stage.options[std::string(option.key)] = drawn(option, random);
        CHECK(stage.value(option.key) == value);
        const std::string text =
            to_string(Stage{.name = stage.name, .options = {{std::string(option.key), value}}});
        options +=
            (options.empty() ? "" : ", ") + std::string(option.key) + ": " + text.substr(text.find('=') + 1);
      }
      for (const StageOption& option : info.options)
        if (!stage.options.contains(std::string(option.key))) CHECK(stage.value(option.key) == option.usual);
      CHECK(parse_stage(to_string(stage)) == stage);
      yaml += "  - " +
              (options.empty() && random() % 2 == 0 ? stage.name : stage.name + ": {" + options + "}") + "\n";
      recipe.stages.push_back(stage);
    }
    CAPTURE(yaml);
    CHECK(parse_recipe(yaml, "drawn").stages == recipe.stages);
    CHECK(parse_recipe(to_yaml(recipe), "printed") == recipe);
  }
}

TEST_CASE("stages: help for all of them; what trains is refused where nothing is trained") {
  for (const StageInfo& info : stage_infos()) {
    CHECK_FALSE(info.help.empty());
    for (const StageOption& option : info.options) CHECK_FALSE(option.help.empty());
    Recipe recipe{.weights = QuantSpec::parse("int4"), .stages = {parse_stage(info.name)}};
    CHECK_THROWS_WITH_AS(refuse_stages(recipe),
                         doctest::Contains(info.trains ? "is for training a language model"
                                                       : "is for crumb quantize, and for"),
                         Error);
    if (info.trains)
      CHECK_THROWS_WITH_AS(refuse_training_fields(recipe), doctest::Contains(std::string(info.name).c_str()),
                           Error);
  }
}

TEST_CASE("stages: an option's most is the last that is read, and messages say it") {
  std::mt19937 random(7);
  int bounded = 0;
  for (const StageInfo& info : stage_infos())
    for (const StageOption& option : info.options) {
      if (!option.most) continue;
      ++bounded;
      const std::string begin = std::string(info.name) + ":" + std::string(option.key) + "=";
      CHECK(parse_stage(begin + option.text_of(*option.most)).value(option.key) == *option.most);
      const std::string expected = option.expected();
      CHECK(expected.ends_with(" " + option.text_of(*option.most)));
      for (int round = 0; round < 50; ++round) {
        const double drawn =
            *option.most + std::pow(10.0, std::uniform_real_distribution<double>(-6, 9)(random));
        const double beyond = option.kind == StageOption::Kind::kCount ? std::ceil(drawn) : drawn;
        CHECK_THROWS_WITH_AS(parse_stage(begin + option.text_of(beyond)), doctest::Contains(expected.c_str()),
                             Error);
      }
    }
  CHECK(bounded >= 3);  // best, smooth and split have one
}

TEST_CASE("stages: changed texts are read or refused as usage") {
  std::mt19937 random(6);
  const std::string sample = "block_wise:passes=2:sequences=48:rate=0.0003";
  for (int round = 0; round < 5000; ++round) {
    std::string text = sample;
    for (unsigned k = 1 + random() % 3; k > 0 && !text.empty(); --k) {
      const std::size_t at = random() % text.size();
      if (random() % 2 == 0)
        text[at] = static_cast<char>(random());
      else
        text.erase(at, 1 + random() % 6);
    }
    try {
      const Stage stage = parse_stage(text);
      CHECK(parse_stage(to_string(stage)) == stage);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
    }
  }
}

}  // namespace
}  // namespace crumb
