// Stages in any order: a network that they give is the network, or they refuse.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/quantize/apply.h"
#include "ptq/rounding/final_constants.h"
#include "runtime/engine.h"
#include "tests/ptq/drawn_network.h"
#include "tests/ptq/settings.h"
#include "tests/ptq/stream_network.h"
#include "tests/support/testing.h"

namespace {

using crumb::graph::Tensor;
using crumb::ptq::Setting;

/// A network whose weights become eight bits, fed, and what it is fed with.
struct Fed {
  Setting setting;
  std::vector<Tensor> samples;
};

Fed drawn_fed(std::mt19937& random, const crumb::graph::Engine& engine) {
  Fed made;
  if (random() % 2 == 0) {
    made.setting = crumb::ptq::test::StreamNetwork(random, "int8:channel").draw().setting;
    for (int i = 0; i < 4; ++i) {
      std::vector<std::int64_t> places(6);
      for (std::int64_t& place : places) place = static_cast<std::int64_t>(random() % 11);
      made.samples.push_back(Tensor::ints({2, 3}, places));
    }
  } else {
    crumb::ptq::test::DrawnNetwork network(random);
    made.setting = network.setting;
    for (auto& constant : made.setting.plan.constants)
      constant.spec = crumb::QuantSpec::parse("int8:channel");
    made.samples = {network.sample};
    for (int i = 0; i < 3; ++i)
      made.samples.push_back(crumb::ptq::test::drawn_tensor(random, network.sample.shape()));
  }
  crumb::ptq::test::feed(made.setting, engine, made.samples);
  return made;
}

std::string drawn_stage(std::mt19937& random) {
  static const std::map<std::string, std::string> kOptions = {
      {"adaround", ":steps=4"}, {"best", ":trials=2:sweeps=0"}, {"gptq", ":sweeps=1"},
      {"low_rank", ":rank=1"},  {"outliers", ":share=0.1"},     {"rotate", ":online=2"},
      {"split", ":share=0.2"}};
  std::vector<std::string> names;
  for (const crumb::StageInfo& stage : crumb::stage_infos())
    if (!stage.trains) names.emplace_back(stage.name);
  const std::string name = names[random() % names.size()];
  const auto options = kOptions.find(name);
  return options == kOptions.end() || random() % 3 == 0 ? name : name + options->second;
}

/// Squares of what the outputs lose, over theirs.
double loss_of(const crumb::graph::Graph& meant, const Setting& setting, const std::vector<Tensor>& samples) {
  const crumb::runtime::Engine engine(1);
  const auto before = engine.prepare(meant),
             after = engine.prepare(crumb::graph::apply(setting.graph, setting.plan));
  double lost = 0, all = 0;
  for (const Tensor& sample : samples) {
    const auto a = before->run({sample}).at(0).to_floats(), b = after->run({sample}).at(0).to_floats();
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      lost += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      all += std::pow(static_cast<double>(a[i]), 2);
    }
  }
  return all > 0 ? lost / all : 0;
}

}  // namespace

TEST_CASE("stages: in whatever order, in floats and at eight bits the network stays, or a stage refuses") {
  std::mt19937 random(151);
  const crumb::runtime::Engine engine(1);
  int given = 0, refused = 0, same_in_floats = 0;
  const int rounds = crumb::testing::slow() ? 600 : 200;
  for (int round = 0; round < rounds; ++round) {
    Fed fed = drawn_fed(random, engine);
    const crumb::graph::Graph before = fed.setting.graph;
    // What eight bits alone move says nothing of stages: functions that saturate, differences of what is alike.
    const bool is_coarse = loss_of(before, fed.setting, fed.samples) > 0.01;
    std::string chain;
    bool means_move = false;
    std::vector<crumb::Stage> stages;
    for (unsigned i = 0; i < 2 + random() % 3; ++i) {
      const std::string stage = drawn_stage(random);
      chain += (chain.empty() ? "" : ",") + stage;
      means_move |= stage == "batch_norm" || stage == "bias_correction";
      stages.push_back(crumb::parse_stage(stage));
    }
    CAPTURE(round);
    CAPTURE(chain);
    try {
      (void)crumb::ptq::run_stages(stages, fed.setting);
    } catch (const crumb::Error&) {
      ++refused;
      continue;
    }
    ++given;
    // A step of eight bits is 2^-7 of the largest weight, an error of 2^-16 of its square at most; a network that became another
    // loses as much as it gives.
    if (!is_coarse) CHECK(loss_of(before, fed.setting, fed.samples) < 0.05);
    if (means_move) continue;
    ++same_in_floats;
    fed.setting.plan.constants.clear();
    CHECK(loss_of(before, fed.setting, fed.samples) < 1e-9);  // 2^-48, float32 squared, 3e5 times
  }
  CHECK(given > rounds / 6);
  CHECK(same_in_floats > rounds / 10);
  CHECK(refused > rounds / 30);
}

/// In floats, and the codes with it.
void change(Setting& setting, const std::string& constant, const Tensor& numbers) {
  setting.graph.initializers.at(constant) = numbers;
  crumb::ptq::set_final_values(setting, constant, numbers);
}

TEST_CASE("settled codes: a stage that leaves codes of other numbers is found out") {
  std::mt19937 random(157);
  const crumb::runtime::Engine engine(1);
  for (int round = 0; round < 40; ++round) {
    Fed fed = drawn_fed(random, engine);
    if (fed.setting.plan.constants.empty()) continue;
    auto& constant = fed.setting.plan.constants[random() % fed.setting.plan.constants.size()];
    constant.rounded = crumb::graph::codes_of(constant, fed.setting.graph);
    const crumb::ptq::FinalConstants constants(fed.setting);
    const crumb::Stage stage = crumb::parse_stage("equalize");
    constants.expect_good(fed.setting, stage);
    const Tensor numbers = fed.setting.graph.initializers.at(constant.value);
    for (int again = 0; again < 8; ++again) {  // new codes may lie where others did
      const crumb::ptq::FinalConstants before(fed.setting);
      std::vector<float> moved = numbers.to_floats();
      moved[0] += 1.0F + static_cast<float>(again);
      change(fed.setting, constant.value, Tensor::floats(numbers.shape(), moved));
      before.expect_good(fed.setting, stage);
    }
    change(fed.setting, constant.value, numbers);
    std::vector<float> other = numbers.to_floats();
    other[random() % other.size()] += 0.5F;
    Tensor changed = Tensor::floats(numbers.shape(), other);
    Setting stale = fed.setting;
    stale.graph.initializers.at(constant.value) = changed;
    CHECK_THROWS_AS(crumb::ptq::FinalConstants(fed.setting).expect_good(stale, stage), crumb::Error);
    change(fed.setting, constant.value, changed);
    constants.expect_good(fed.setting, stage);
    CHECK(constant.rounded->tensor->codes ==
          crumb::graph::quantize_constant(*constant.spec, changed, constant.axes.output, "").tensor->codes);
  }
}
