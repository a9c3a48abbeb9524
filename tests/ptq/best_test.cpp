// The stage best: of its ways, the one that loses least.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "graph/onnx/infer_shapes.h"
#include "ptq/stages.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/layers.h"

TEST_CASE("best: loses as little as the least of its ways, and says by which") {
  using crumb::graph::Tensor;
  std::mt19937 random(107);
  const crumb::runtime::Engine engine(1);
  std::vector<std::string> chosen;
  for (int round = 0; round < 25; ++round) {
    crumb::graph::NodeBuilder build;
    const std::string x = build.input("x", {60, 24});
    build.graph.outputs = {
        build.node("MatMul", {x, build.constant("w", crumb::ptq::test::drawn_tensor(random, {24, 10}))})};
    // Neighbours in common, and channels of other sizes.
    const crumb::ptq::test::Rows drawn = crumb::ptq::test::drawn_samples(random, 24, 60, 0.8F).transpose();
    std::vector<float> values(drawn.data(), drawn.data() + drawn.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] *= 1.0F + static_cast<float>(i % 24 * round % 5);
    const Tensor sample = Tensor::floats({60, 24}, values);
    const auto lost = [&](const std::string& stage) {
      crumb::ptq::Setting setting{.graph = crumb::graph::infer_shapes(build.graph), .plan = {}};
      setting.plan.constants.push_back(
          {.value = "w",
           .node = "w",
           .axes = 1,
           .spec = crumb::QuantSpec::parse(round % 2 == 0 ? "int3:channel" : "e2m1:group=8"),
           .kept_because = "",
           .rounded = {}});
      setting.engine = &engine;
      setting.samples = [&](const auto& batch) { batch({sample}); };
      const auto report = crumb::ptq::run_stages({crumb::parse_stage(stage)}, setting).at(0);
      if (stage.starts_with("best") && !report.notes.empty()) chosen.push_back(report.notes.at(0));
      return report.layers.at(0).after;
    };
    const std::vector<double> ways = {lost("gptq"),
                                      lost("gptq:order=off"),
                                      lost("qronos:sweeps=4"),
                                      lost("gptq:damp=0.001"),
                                      lost("gptq:damp=0.1"),
                                      lost("clip:sweeps=4:float_inputs=on"),
                                      lost("gpfq:sweeps=4:damp=0.01")};
    for (const std::size_t trials : {1U, 3U, 7U})
      CHECK(
          lost("best:trials=" + std::to_string(trials)) ==
          doctest::Approx(*std::min_element(ways.begin(), ways.begin() + static_cast<std::ptrdiff_t>(trials)))
              .epsilon(1e-2));
  }
  std::ranges::sort(chosen);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  CHECK(chosen.size() >= 3);
}
