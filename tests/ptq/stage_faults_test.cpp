// What stages say where they cannot do anything: the reason, not what follows from it.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "graph/onnx/infer_shapes.h"
#include "graph/quantize/plan.h"
#include "ptq/stages.h"
#include "quant/recipe/recipe.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/layers.h"
#include "tests/ptq/settings.h"

namespace crumb::ptq {
namespace {

using graph::NodeBuilder;
using graph::Tensor;
using test::drawn_tensor;
using test::run_one;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// Two layers with a Relu between them, as a recipe plans them.
struct TwoLayers {
  std::mt19937 random;
  NodeBuilder build;
  runtime::Engine engine{1};

  explicit TwoLayers(unsigned seed) : random(seed) {
    const std::string made =
        build.node("Gemm", {build.input("x", {6, 8}), build.constant("w", drawn_tensor(random, {8, 10})),
                            build.constant("b", drawn_tensor(random, {10}))});
    build.graph.outputs = {
        build.node("Gemm", {build.node("Relu", {made}), build.constant("v", drawn_tensor(random, {10, 4})),
                            build.constant("c", drawn_tensor(random, {4}))})};
  }

  Setting setting(const std::string& recipe = "weights: int4") {
    Setting made{
        .graph = graph::prepare(graph::infer_shapes(build.graph), parse_recipe(recipe, "test"), &engine),
        .plan = {}};
    made.plan = graph::plan_quantizers(made.graph, parse_recipe(recipe, "test"));
    test::feed(made, engine, {drawn_tensor(random, {6, 8})});
    return made;
  }
};

std::string said(const std::string& stage, Setting& setting) {
  try {
    run_one(stage, setting);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

void says(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("stage faults: stages that scale channels come before those that round") {
  for (const std::string rounding : {"gptq", "clip", "qronos"})
    for (const std::string stage : {"equalize", "smooth", "awq"}) {
      TwoLayers layers(1);
      Setting fresh = layers.setting();
      run_one(rounding, fresh);
      says(said(stage, fresh),
           "have their codes already; put the stage before those that round (as in " + stage + ",gptq)");
      TwoLayers others(2);
      Setting open = others.setting();
      CHECK(said(stage, open) == "nothing");
    }
}

TEST_CASE("stage faults: what is wrong with a later stage is said before the first one works") {
  struct Fault {
    std::string stage, says;
    bool has_samples = true;
  };
  std::vector<Fault> faults = {
      {"gptq:accumulator=3", "an accumulator has 4 to 62 bits, found 3"},
      {"qronos:accumulator=63", "an accumulator has 4 to 62 bits, found 63"},
      {"gpfq:tile=8", "tile=8 says of how many terms accumulator=BITS is, which is not given"},
      {"outliers:share=1", "keeps a share of the weights, below 1, found share=1"},
      {"fisher", "has nothing here that makes gradients"},
      {"block_wise", "is for training"},
      {"end_to_end:steps=4", "is for training"}};
  for (const std::string stage : {"gptq", "gpfq", "qronos", "clip", "best", "adaround", "awq", "smooth",
                                  "fisher", "batch_norm", "bias_correction"})
    faults.push_back({stage, "the stage " + stage + " needs samples", false});
  const std::vector<std::string> before = {"split",  "low_rank:rank=1", "outliers:share=0.1",
                                           "rotate", "equalize",        "clip"};
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const Fault& fault = faults[random() % faults.size()];
    TwoLayers layers(8);
    Setting setting = layers.setting();
    if (!fault.has_samples) setting.samples = {};
    setting.progress = [](std::size_t, std::size_t) { FAIL("a stage works"); };
    std::vector<Stage> chain;
    for (std::size_t i = random() % 3; i > 0; --i)
      chain.push_back(parse_stage(before[random() % (before.size() - (fault.has_samples ? 0 : 1))]));
    chain.push_back(parse_stage(fault.stage));
    const std::map<std::string, Tensor> floats = setting.graph.initializers;
    std::string text = "nothing";
    try {
      run_stages(chain, setting);
    } catch (const Error& error) {
      text = error.what();
      CHECK(error.kind() == ErrorKind::kUsage);
    }
    says(text, fault.says);
    CHECK(setting.graph.initializers == floats);
    for (const graph::PlannedConstant& constant : setting.plan.constants) CHECK(!constant.rounded);
  }
}

TEST_CASE("stage faults: where nothing is left to round, each weight's reason") {
  TwoLayers layers(3);
  Setting kept = layers.setting("weights: int4\nrules:\n  - match: {name: w}\n    skip: true\n");
  CHECK(said("gptq", kept) == "nothing");
  says(said("gptq", kept), "1 weight ('w') kept: excluded by");
  says(said("gptq", kept), "1 weight ('v') with codes of a stage before");
  for (const std::string part : {"alpha", "beta", "transA"}) {
    NodeBuilder build;
    std::mt19937 random(4);
    build.graph.outputs = {
        build.node("Gemm", {build.input("x", {8, 8}), build.constant("w", drawn_tensor(random, {8, 3})),
                            build.constant("b", drawn_tensor(random, {3}))})};
    if (part == "transA")
      build.graph.nodes.back().attributes[part] = std::int64_t{1};
    else
      build.graph.nodes.back().attributes[part] = 0.5F;
    const Recipe recipe = parse_recipe("weights: int4", "test");
    Setting setting{.graph = graph::prepare(graph::infer_shapes(build.graph), recipe, nullptr), .plan = {}};
    setting.plan = graph::plan_quantizers(setting.graph, recipe);
    test::feed(setting, layers.engine, {drawn_tensor(random, {8, 8})});
    says(said("gptq", setting),
         "1 weight ('w') taken by node 'Gemm0' (Gemm), which has an alpha, beta or transA of its own");
  }
}

TEST_CASE("stage faults: a constant that is no number is what a message names") {
  std::mt19937 random(5);
  for (const std::string stage : {"equalize", "smooth", "awq", "batch_norm", "bias_correction"})
    for (const float value : {kInf, -kInf, kNan}) {
      TwoLayers layers(6);
      Setting setting = layers.setting();
      Tensor& bias = setting.graph.initializers.at("b");
      std::vector<float> values = bias.to_floats();
      const std::size_t place = random() % values.size();
      values[place] = value;
      bias = Tensor::floats(bias.shape(), values);
      says(said(stage, setting),
           "the stage " + stage + ": tensor 'b' holds 1 value that is inf or NaN, the first (");
      says(said(stage, setting), ") at index " + std::to_string(place));
    }
}

TEST_CASE("stage faults: numbers whose products are beyond float32 are not called inf") {
  for (const std::string stage : {"gptq", "gpfq", "qronos", "clip", "adaround:steps=2", "best:trials=2"}) {
    // Squares of numbers up to 2^63 are below 2^126: within float32, and a few of them, too.
    for (const int exponent : {40, 60, 66, 100, 120}) {
      TwoLayers layers(7);
      Setting setting = layers.setting();
      std::vector<float> values = drawn_tensor(layers.random, {6, 8}).to_floats();
      for (float& value : values) value = std::ldexp(std::copysign(1.0F, value), exponent);
      test::feed(setting, layers.engine, {Tensor::floats({6, 8}, values)});
      CAPTURE(exponent);
      const std::string text = said(stage, setting);
      CHECK(text.find("inf or NaN") == std::string::npos);
      if (exponent >= 64)
        says(text, "value 'x', is so large on the samples that products of two numbers, or their sums, are");
      values[11] = kNan;
      Setting spoiled = layers.setting();
      test::feed(spoiled, layers.engine, {Tensor::floats({6, 8}, values)});
      says(said(stage, spoiled), "value 'x', holds inf or NaN on the samples");
    }
  }
}

}  // namespace
}  // namespace crumb::ptq
