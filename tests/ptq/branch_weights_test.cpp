// What stands beside a matrix: that it is found, and that methods which hold outputs against the float network's reckon with it.
#include "ptq/rounding/branch_weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "graph/quantize/apply.h"
#include "ptq/matrices/weight_rows.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/drawn_network.h"
#include "tests/ptq/layers.h"
#include "tests/ptq/settings.h"

namespace {

using crumb::graph::Tensor;
using crumb::ptq::BranchWeights;
using crumb::ptq::Setting;
using crumb::ptq::test::drawn_tensor;

/// Two products in a row, the first with codes of three bits already, the second to become eight.
struct BesideCase {
  Setting setting;
  std::vector<Tensor> samples;
};

BesideCase beside_case(std::mt19937& random, const crumb::graph::Engine& engine) {
  const auto size = [&] { return static_cast<std::int64_t>(4 + random() % 12); };
  const std::int64_t in = size(), middle = size(), out = size();
  crumb::graph::NodeBuilder build;
  const std::string x = build.input("x", {64, in});
  const std::string y =
      build.node("MatMul", {x, build.constant("a.weight", drawn_tensor(random, {in, middle}))});
  build.graph.outputs = {
      build.node("MatMul", {y, build.constant("b.weight", drawn_tensor(random, {middle, out}))})};
  build.graph.opsets[""] = 17;
  BesideCase made;
  made.setting.graph = crumb::graph::infer_shapes(build.graph);
  crumb::ptq::test::will_be(made.setting, "a.weight", 1, "int3:channel");
  crumb::ptq::test::will_be(made.setting, "b.weight", 1, "int8:channel");
  auto& first = made.setting.plan.constants[0];
  first.rounded = crumb::graph::codes_of(first, made.setting.graph);
  for (int i = 0; i < 4; ++i) made.samples.push_back(drawn_tensor(random, {64, in}));
  crumb::ptq::test::feed(made.setting, engine, made.samples);
  return made;
}

std::vector<float> outputs_of(const Setting& setting, const Tensor& sample) {
  const crumb::runtime::Engine engine(1);
  return engine.prepare(crumb::graph::apply(setting.graph, setting.plan))->run({sample}).at(0).to_floats();
}

double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    lost += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    all += std::pow(static_cast<double>(a[i]), 2);
  }
  return lost / all;
}

}  // namespace

TEST_CASE("beside weights: codes' numbers and what stands beside them are the matrix that was") {
  std::mt19937 random(211);
  const crumb::runtime::Engine engine(1);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    crumb::ptq::test::DrawnNetwork network(random);
    const crumb::graph::Graph before = network.setting.graph;
    const std::string chain = std::vector<std::string>{"low_rank:rank=1", "outliers:share=0.2"}[random() % 2];
    CAPTURE(round);
    CAPTURE(chain);
    crumb::ptq::test::feed(network.setting, engine, {network.sample});
    try {
      crumb::ptq::test::run_one(chain, network.setting);
      if (random() % 2 == 0)
        crumb::ptq::test::run_one(chain[0] == 'l' ? "outliers:share=0.2" : "low_rank:rank=1",
                                  network.setting);
    } catch (const crumb::Error&) {
      continue;  // no matrix of the network becomes codes
    }
    const BranchWeights beside(network.setting.graph);
    for (const auto& constant : network.setting.plan.constants) {
      const auto rows = crumb::ptq::weight_rows(network.setting.graph.initializers.at(constant.value),
                                                constant.axes.output),
                 whole =
                     crumb::ptq::weight_rows(before.initializers.at(constant.value), constant.axes.output);
      const std::vector<float> more = beside.of(constant.value);
      REQUIRE((more.empty() || more.size() == rows.values.size()));
      found += more.empty() ? 0 : 1;
      for (std::size_t i = 0; i < rows.values.size(); ++i) {
        const float sum = rows.values[i] + (more.empty() ? 0 : more[i]);
        REQUIRE(std::fabs(sum - whole.values[i]) < 1e-5F * (1 + std::fabs(whole.values[i])));
      }
    }
  }
  CHECK(found > 200);
}

TEST_CASE("beside weights: what mends the layers before is the same map with and without an adapter") {
  // Both hold the outputs against V + V (G - H) (H + d)^-1, of which the adapter gives its part: what is apart is two roundings to
  // eight bits, each 2^-16 / 3 of the largest square of a row of up to 15, ten times the mean square at most: 1e-4 in all.
  std::mt19937 random(223);
  const crumb::runtime::Engine engine(1);
  for (const std::string stage : {"gptq:sweeps=0", "gptq"}) {
    int mended = 0;
    for (int round = 0; round < 60; ++round) {
      CAPTURE(stage);
      CAPTURE(round);
      BesideCase plain = beside_case(random, engine);
      BesideCase with = plain, none = plain;
      crumb::ptq::test::run_one(stage, plain.setting);
      crumb::ptq::test::run_one(round % 2 == 0 ? "low_rank:rank=2" : "outliers:share=0.3", with.setting);
      crumb::ptq::test::run_one(stage, with.setting);
      const auto meant = outputs_of(plain.setting, plain.samples[0]);
      CHECK(apart(meant, outputs_of(with.setting, plain.samples[0])) < 1e-4);
      mended += apart(meant, outputs_of(none.setting, plain.samples[0])) > 1e-3 ? 1 : 0;
    }
    CHECK(mended > 40);  // there is something to mend
  }
}
