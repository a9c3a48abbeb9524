// Layers are measured the same whether what the baseline computes is kept, kept in part, or computed anew.
#include "jobs/evaluate/layers/layer_evaluation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/files/interrupt.h"
#include "graph/quantize/apply.h"
#include "jobs/evaluate_layers_json.h"
#include "runtime/engine.h"
#include "tests/graph/quantize/build_graph.h"
#include "tests/support/samples.h"

namespace crumb::jobs {
namespace {

using graph::Graph;
using graph::Tensor;
using graph::testing::GraphBuilder;

constexpr std::int64_t kImageChannels = 3, kImageSize = 6;

/// Convolutions in a row and beside each other, a pool, and a matrix product.
Graph drawn_branches(unsigned seed) {
  GraphBuilder builder({-1, kImageChannels, kImageSize, kImageSize});
  builder.random.seed(seed);
  builder.graph.values["x"].shape->front() = graph::Dim("N");
  const graph::Attribute pads = std::vector<std::int64_t>{1, 1, 1, 1};
  std::string value = "x";
  std::int64_t width = kImageChannels;
  const unsigned count = 1 + seed % 3;
  for (unsigned i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    const std::int64_t out = 2 + static_cast<std::int64_t>((seed + i) % 4);
    builder.weight("a" + name, {out, width, 3, 3}).weight("b" + name, {out, width, 1, 1});
    builder.node("Conv", {value, "a" + name}, "one" + name, {{"pads", pads}})
        .node("Conv", {value, "b" + name}, "two" + name)
        .node("Add", {"one" + name, "two" + name}, "sum" + name)
        .node("Relu", {"sum" + name}, "relu" + name);
    value = "relu" + name;
    width = out;
  }
  builder.weight("fc", {width * kImageSize * kImageSize, 4})
      .node("Flatten", {value}, "flat")
      .node("MatMul", {"flat", "fc"}, "y");
  return builder.done();
}

graph::Batches image_batches(unsigned seed) {
  std::vector<std::vector<Tensor>> all;
  for (const std::int64_t count : {5, 3}) {
    const std::vector<std::int64_t> shape{count, kImageChannels, kImageSize, kImageSize};
    const auto numbers = static_cast<std::size_t>(count * kImageChannels * kImageSize * kImageSize);
    all.push_back({Tensor::floats(shape, testing::normal_values(numbers, seed + numbers))});
  }
  return [all](const std::function<void(const std::vector<Tensor>&)>& batch) {
    for (const auto& inputs : all) batch(inputs);
  };
}

Graph quantized_by_plan(const Graph& network, const graph::Batches& batches) {
  Recipe recipe;
  recipe.weights = QuantSpec::parse("int3:channel");
  recipe.activations = QuantSpec::parse_activations("uint5:tensor");
  graph::QuantPlan plan = graph::plan_quantizers(network, recipe);
  graph::calibrate(network, runtime::Engine(1), batches, plan);
  return graph::apply(network, plan);
}

EvaluateLayers measured(const Graph& model, const Graph& baseline, const graph::Batches& batches,
                        std::uint64_t memory, std::size_t most = 100) {
  Observer silent;
  bool interrupted = false;
  const EvaluateLayers made = evaluate_layers({.path = "model",
                                               .model = model,
                                               .baseline = baseline,
                                               .batches = batches,
                                               .axes = {},
                                               .model_axes = {},
                                               .most = most,
                                               .prepare = prepare_on("runtime", 1),
                                               .threads = 1,
                                               .memory = memory},
                                              interrupted, silent);
  CHECK_FALSE(interrupted);
  return made;
}

TEST_CASE("layers have the same figures whatever fits in memory") {
  for (unsigned seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const Graph network = drawn_branches(seed);
    const graph::Batches batches = image_batches(seed);
    const Graph model = quantized_by_plan(network, batches);
    const EvaluateLayers meant = measured(model, network, batches, std::uint64_t{1} << 30);
    CHECK(meant.samples == 8);
    CHECK(meant.layers.size() == 2 * (1 + seed % 3) + 1);
    for (const EvaluateLayer& layer : meant.layers) {
      CHECK(layer.alone_db.value_or(-1000) > 0);
      CHECK(layer.accumulated_db.has_value());
    }
    for (const std::uint64_t memory : {0, 300, 2000, 8000}) {
      CAPTURE(memory);
      CHECK(json_of(measured(model, network, batches, memory)) == json_of(meant));
    }
    CHECK(measured(model, network, batches, 0, 6).samples == 6);
  }
}

TEST_CASE("what was measured until a person asks to stop is kept") {
  class Stopping final : public Observer {
   public:
    void progress(const Progress& progress) override {
      if (progress.done == 3) throw Interrupted();
    }
  };
  const Graph network = drawn_branches(2);
  const graph::Batches batches = image_batches(2);
  const Graph model = quantized_by_plan(network, batches);
  Stopping stopping;
  bool interrupted = false;
  const EvaluateLayers made = evaluate_layers({.path = "model",
                                               .model = model,
                                               .baseline = network,
                                               .batches = batches,
                                               .axes = {},
                                               .model_axes = {},
                                               .prepare = prepare_on("runtime", 1),
                                               .threads = 1},
                                              interrupted, stopping);
  CHECK(interrupted);
  CHECK(made.layers.size() == 7);
  CHECK(std::ranges::count_if(made.layers,
                              [](const EvaluateLayer& layer) { return layer.alone_db.has_value(); }) == 2);
}

}  // namespace
}  // namespace crumb::jobs
