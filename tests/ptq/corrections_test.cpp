// Stages around rounding: golden values of Brevitas, networks that stay what they are, means that come out right.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/operator_traits.h"
#include "graph/quantize/apply.h"
#include "graph/quantize/calibrate.h"
#include "ptq/precision/quantized_network.h"
#include "ptq/rounding/final_constants.h"
#include "ptq/stages.h"
#include "ptq/transforms/channel_scaling.h"
#include "ptq/transforms/equalize.h"
#include "quant/recipe/recipe.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/drawn_network.h"
#include "tests/ptq/layers.h"
#include "tests/ptq/settings.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::NodeBuilder;
using crumb::graph::Tensor;
using crumb::ptq::Setting;
using crumb::ptq::test::drawn_tensor;
using crumb::ptq::test::feed;
using crumb::ptq::test::will_be;

/// Brevitas' T8: W1[o][k] = sin(1 + .9 k + 2.3 o) (.2 + .8 o), W2[o][k] = cos(.5 + 1.1 k + .7 o) (1.5 - .4 k).
Setting golden_network() {
  std::vector<float> first, second;
  for (int o = 0; o < 3; ++o)
    for (int k = 0; k < 4; ++k)
      first.push_back(static_cast<float>(std::sin(1 + .9 * k + 2.3 * o) * (.2 + .8 * o)));
  for (int o = 0; o < 2; ++o)
    for (int k = 0; k < 3; ++k)
      second.push_back(static_cast<float>(std::cos(.5 + 1.1 * k + .7 * o) * (1.5 - .4 * k)));
  NodeBuilder build;
  const std::string x = build.input("x", {8, 4});
  const std::vector<float> bias = {.1F, -.2F, .3F};
  std::string y = build.node("Gemm",
                             {x, build.constant("w1", Tensor::floats({3, 4}, first)),
                              build.constant("b1", Tensor::floats({3}, bias))},
                             {{"transB", std::int64_t{1}}});
  y = build.node("Gemm", {build.node("Relu", {y}), build.constant("w2", Tensor::floats({2, 3}, second))},
                 {{"transB", std::int64_t{1}}});
  build.graph.outputs = {y};
  Setting setting{.graph = crumb::graph::infer_shapes(build.graph), .plan = {}};
  will_be(setting, "w1", 0, "int2:channel");
  will_be(setting, "w2", 0, "int4:channel");
  return setting;
}

std::vector<Tensor> golden_samples() {
  std::vector<Tensor> batches;
  for (int b = 0; b < 2; ++b) {
    std::vector<float> values;
    for (int n = 8 * b; n < 8 * b + 8; ++n)
      for (int k = 0; k < 4; ++k) values.push_back(static_cast<float>(std::sin(.3 * n + .7 * k)));
    batches.push_back(Tensor::floats({8, 4}, values));
  }
  return batches;
}

void check(const std::vector<float>& found, const std::vector<double>& meant) {
  for (std::size_t i = 0; i < meant.size(); ++i)
    CHECK(static_cast<double>(found[i]) == doctest::Approx(meant[i]).epsilon(2e-6));
}

Tensor uneven(std::mt19937& random, const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values)
    value = normal(random) * std::exp2(static_cast<float>(static_cast<int>(random() % 7) - 3));
  return Tensor::floats(shape, values);
}

/// Layers behind each other, of every kind that a factor goes through, and some that it does not.
Setting layered_network(std::mt19937& random) {
  NodeBuilder build;
  Setting setting;
  const auto constant = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    return build.constant(name + std::to_string(build.graph.nodes.size()), uneven(random, shape));
  };
  const auto weight = [&](const std::vector<std::int64_t>& shape, std::size_t axis) {
    const std::string name = constant("w", shape);
    will_be(setting, name, axis, random() % 2 == 0 ? "int4:channel" : "int3:tensor");
    return name;
  };
  std::string x = build.input("x", {2, 3, 8, 8});
  std::int64_t channels = 3;
  for (unsigned i = 0; i < 2 + random() % 4; ++i) {
    switch (random() % 7) {
      case 0: x = build.node("Relu", {x}); break;
      case 1: x = build.node("LeakyRelu", {x}, {{"alpha", 0.1F}}); break;
      case 2: x = build.node("Mul", {x, constant("m", {channels, 1, 1})}); break;
      case 3: x = build.node("Sigmoid", {x}); break;
      case 4:
        x = build.node("Conv", {x, weight({channels, 1, 3, 3}, 0), constant("b", {channels})},
                       {{"group", channels}, {"pads", std::vector<std::int64_t>(4, 1)}});
        break;
      case 5: x = build.node("Add", {x, x}); break;
      default: break;
    }
    const std::int64_t next = 2 + static_cast<std::int64_t>(random() % 5);
    std::vector<std::string> inputs = {x, weight({next, channels, 3, 3}, 0)};
    if (random() % 3 != 0) inputs.push_back(constant("b", {next}));
    x = build.node("Conv", std::move(inputs), {{"pads", std::vector<std::int64_t>(4, 1)}});
    channels = next;
    if (random() % 4 == 0) build.graph.outputs.push_back(x);
  }
  x = build.node("Relu", {x});
  x = build.node("Flatten", {build.node(random() % 2 == 0 ? "GlobalAveragePool" : "GlobalMaxPool", {x})});
  // As language models have it: gate and product.
  const std::string up = build.node("MatMul", {x, weight({channels, 6}, 1)}),
                    gate = build.node("MatMul", {x, weight({channels, 6}, 1)});
  x = build.node("Mul", {build.node("Sigmoid", {gate}), build.node("Add", {up, constant("b", {6})})});
  x = build.node("MatMul", {x, weight({6, 5}, 1)});
  x = build.node("LayerNormalization", {x, constant("g", {5}), constant("b", {5})},
                 {{"axis", std::int64_t{-1}}});
  build.graph.nodes.back().version = 17;
  build.graph.opsets[""] = 17;
  x = build.node("Gemm", {x, weight({4, 5}, 0), constant("b", {4})}, {{"transB", std::int64_t{1}}});
  build.graph.outputs.push_back(x);
  setting.graph = crumb::graph::infer_shapes(build.graph);
  return setting;
}

}  // namespace

TEST_CASE("equalize: Brevitas' golden values") {
  Setting setting = golden_network();
  (void)crumb::ptq::run_stages({crumb::parse_stage("equalize:iterations=1")}, setting);
  check(setting.graph.initializers.at("w1").to_floats(), {.4438429, .4991362, .1766931, -.2794678});
  check(setting.graph.initializers.at("b1").to_floats(), {.2637304, -.1779473, .1936678});
  check(setting.graph.initializers.at("w2").to_floats(), {.4991362, -.0361, -.9803138});
}

TEST_CASE("bias correction: Brevitas' golden values") {
  Setting setting = golden_network();
  const crumb::runtime::Engine engine(1);
  feed(setting, engine, golden_samples());
  const auto report = crumb::ptq::run_stages({crumb::parse_stage("bias_correction")}, setting).at(0);
  check(crumb::ptq::numbers_of(setting, "b1").to_floats(), {.0641761, -.1579472, .4288715});
  check(crumb::graph::apply(setting.graph, setting.plan).initializers.at("b1").to_floats(),
        {.0641761, -.1579472, .4288715});
  check(setting.graph.initializers.at("b1").to_floats(), {.1, -.2, .3});  // which stays the float network
  CHECK(report.layers.size() == 1);
  CHECK(report.layers[0].after < 1e-12);
  CHECK(report.notes.at(0) == "1 layer without a bias of its own: not corrected");
}

TEST_CASE("quantized network: it computes what the plan carried out computes") {
  std::mt19937 random(71);
  const crumb::runtime::Engine engine(1);
  std::size_t edges = 0;
  for (int round = 0; round < 80; ++round) {
    crumb::ptq::test::DrawnNetwork network(random);
    const std::string spec = std::vector<std::string>{"int4:tensor", "uint5:tensor:zero=int", "e2m1:tensor",
                                                      "int4:token"}[random() % 4];
    const crumb::Recipe recipe = crumb::parse_recipe("weights: int4:channel\nactivations: " + spec, "test");
    Setting setting{.graph = crumb::graph::prepare(network.setting.graph, recipe), .plan = {}};
    setting.plan = crumb::graph::plan_quantizers(setting.graph, recipe);
    feed(setting, engine, {network.sample});
    const auto quantized = crumb::ptq::quantized_network(setting, true);
    const std::string& y = setting.graph.outputs[0];
    if (std::ranges::find(setting.plan.edges, y, &crumb::graph::PlannedEdge::value) !=
        setting.plan.edges.end())
      continue;  // what is a result, too, is so as it was
    edges += setting.plan.edges.size();
    CHECK(engine.prepare(quantized.graph)->run({network.sample})[0].to_floats() ==
          engine.prepare(crumb::graph::apply(setting.graph, setting.plan))
              ->run({network.sample})[0]
              .to_floats());
    for (std::size_t i = 0; i < quantized.places.size(); ++i)
      CHECK(quantized.graph.nodes[quantized.places[i]].op == setting.graph.nodes[i].op);
  }
  CHECK(edges > 150);
}

/// Of each channel on axis 1, over samples and places.
std::vector<double> channel_means(const crumb::graph::Executable& network,
                                  const std::vector<Tensor>& samples) {
  std::vector<double> sums;
  double count = 0;
  for (const Tensor& sample : samples) {
    const Tensor y = network.run({sample}).at(0);
    const std::vector<float> values = y.to_floats();
    const auto channels = static_cast<std::size_t>(y.shape()[1]);
    const std::size_t places = values.size() / channels / static_cast<std::size_t>(y.shape()[0]);
    sums.resize(channels);
    for (std::size_t i = 0; i < values.size(); ++i)
      sums[i / places % channels] += static_cast<double>(values[i]);
    count += static_cast<double>(values.size() / channels);
  }
  for (double& sum : sums) sum /= count;
  return sums;
}

TEST_CASE(
    "bias correction: a layer's means are the float layer's, however coarse its weights and its inputs") {
  std::mt19937 random(67);
  const crumb::runtime::Engine engine(1);
  double worst_before = 0;
  for (int round = 0; round < 150; ++round) {
    const auto in = static_cast<std::int64_t>(2 + 2 * (random() % 4)),
               out = static_cast<std::int64_t>(2 + 2 * (random() % 3));
    const bool is_conv = random() % 2 == 0;
    const std::int64_t groups = is_conv && random() % 3 == 0 ? 2 : 1;
    NodeBuilder build;
    const std::vector<std::int64_t> shape =
        is_conv ? std::vector<std::int64_t>{4, in, 5, 5} : std::vector<std::int64_t>{16, in};
    const std::string x = build.node("Relu", {build.input("x", shape)});
    const std::string b = build.constant("b", drawn_tensor(random, {out}));
    build.graph.outputs = {
        is_conv
            ? build.node("Conv", {x, build.constant("w", drawn_tensor(random, {out, in / groups, 3, 3})), b},
                         {{"group", groups}, {"pads", std::vector<std::int64_t>(4, 1)}})
            : build.node("Gemm", {x, build.constant("w", drawn_tensor(random, {out, in})), b},
                         {{"transB", std::int64_t{1}}})};
    const std::string spec =
        std::vector<std::string>{"int3:tensor", "uint2:tensor", "uint3:tensor:zero=int", "e2m1:tensor",
                                 "int3:token"}[random() % (is_conv ? 4 : 5)];
    CAPTURE(spec);
    CAPTURE(is_conv);
    const crumb::Recipe recipe =
        crumb::parse_recipe("weights: int3:channel\nactivations: " + spec + "\ninputs: keep", "test");
    Setting setting{.graph = crumb::graph::prepare(crumb::graph::infer_shapes(build.graph), recipe),
                    .plan = {}};
    setting.plan = crumb::graph::plan_quantizers(setting.graph, recipe);
    REQUIRE(setting.plan.edges.size() == 1);
    std::vector<Tensor> samples;
    for (int i = 0; i < 3; ++i) samples.push_back(drawn_tensor(random, shape, true));
    feed(setting, engine, samples);
    const std::vector<double> meant = channel_means(*engine.prepare(setting.graph), samples);
    const auto made = [&](Setting of) {
      crumb::graph::calibrate(of.graph, engine, of.samples, of.plan);
      return channel_means(*engine.prepare(crumb::graph::apply(of.graph, of.plan)), samples);
    };
    const std::vector<double> before = made(setting);
    (void)crumb::ptq::run_stages({crumb::parse_stage("bias_correction:values=on")}, setting);
    const std::vector<double> after = made(setting);
    for (std::size_t i = 0; i < meant.size(); ++i) {
      worst_before = std::max(worst_before, std::abs(before[i] - meant[i]));
      // Sums of some hundred products of numbers below a few hundred, in float32.
      CHECK(std::abs(after[i] - meant[i]) < 1e-4 * (1 + std::abs(meant[i])));
    }
  }
  CHECK(worst_before > 1);
}

TEST_CASE("smooth: Brevitas' golden values") {
  // The first layer's, which no layer is before: by the formula.
  Setting setting = golden_network();
  std::vector<double> most(4), factors;
  for (const Tensor& batch : golden_samples()) {
    const auto one = crumb::ptq::channel_magnitudes(batch, 1);
    for (std::size_t k = 0; k < 4; ++k) most[k] = std::max(most[k], one[k]);
  }
  const auto columns = crumb::ptq::channel_magnitudes(setting.graph.initializers.at("w1"), 1);
  for (std::size_t k = 0; k < 4; ++k)
    factors.push_back(crumb::ptq::smoothing_factor(most[k], columns[k], 0.5));
  const std::vector<double> meant = {1.0673020, .9337813, 1.2719272, 1.2767779};
  for (std::size_t k = 0; k < 4; ++k) CHECK(factors[k] == doctest::Approx(meant[k]).epsilon(2e-6));
}

TEST_CASE("factors between layers: the network stays, whatever goes through and whatever does not") {
  std::mt19937 random(61);
  const crumb::runtime::Engine engine(1);
  int moved = 0;
  for (int round = 0; round < 120; ++round) {
    Setting setting = layered_network(random);
    const Graph before = setting.graph;
    std::vector<Tensor> samples = {uneven(random, {2, 3, 8, 8}), uneven(random, {2, 3, 8, 8})};
    feed(setting, engine, samples);
    const std::vector<crumb::ptq::ScalingSite> sites = crumb::ptq::scaling_sites(setting.graph);
    for (const crumb::ptq::ScalingSite& site : sites) {
      std::vector<double> factors(site.channels);
      for (double& factor : factors) factor = std::exp2(static_cast<double>(random() % 21) / 4 - 2.5);
      crumb::ptq::scale_site(setting.graph, site, factors);
    }
    moved += static_cast<int>(sites.size());
    const std::string stage = std::vector<std::string>{"equalize", "smooth:alpha=0.6", "awq:steps=5",
                                                       "awq:steps=4:weights=on"}[random() % 4];
    const auto report = crumb::ptq::run_stages({crumb::parse_stage(stage)}, setting).at(0);
    CHECK(!report.layers.empty());
    const auto old = engine.prepare(before), now = engine.prepare(setting.graph);
    const auto meant = old->run({samples[0]}), found = now->run({samples[0]});
    for (std::size_t i = 0; i < meant.size(); ++i) {
      const std::vector<float> a = meant[i].to_floats(), b = found[i].to_floats();
      double square = 0, lost = 0;
      for (std::size_t j = 0; j < a.size(); ++j) {
        square += std::pow(static_cast<double>(a[j]), 2);
        lost += std::pow(static_cast<double>(a[j]) - static_cast<double>(b[j]), 2);
      }
      // Each of some 300 terms, weights and values is rounded to 2^-24 of itself, layer after layer; sums cancel some.
      CHECK(lost <= 1e-9 * square);
    }
  }
  CHECK(moved > 240);  // two of each network are always there
}

TEST_CASE("factors between layers: operators that are said to scale with their input do") {
  std::mt19937 random(73);
  const crumb::runtime::Engine engine(1);
  int tried = 0;
  for (const crumb::graph::OperatorTraits& row : crumb::graph::operator_rows()) {
    const bool of_channels = row.is(crumb::graph::trait::kScalesChannels);
    if (!of_channels && !row.is(crumb::graph::trait::kScalesElements)) continue;
    CAPTURE(std::string(row.op));
    NodeBuilder build;
    const std::string x = build.input("x", {2, 3, 6, 6});
    std::vector<std::string> inputs = {x};
    if (row.op == "PRelu") inputs.push_back(build.constant("slope", uneven(random, {3, 1, 1})));
    const bool is_window = row.op == "MaxPool" || row.op == "AveragePool" || row.op == "LpPool";
    build.graph.outputs = {build.node(
        std::string(row.op), inputs,
        is_window
            ? std::map<std::string, crumb::graph::Attribute>{{"kernel_shape",
                                                              std::vector<std::int64_t>{2, 3}},
                                                             {"pads", std::vector<std::int64_t>{1, 0, 0, 1}}}
            : std::map<std::string, crumb::graph::Attribute>{})};
    if (!engine.knows(build.graph.nodes[0])) continue;
    const auto network = engine.prepare(crumb::graph::infer_shapes(build.graph));
    const Tensor plain = uneven(random, {2, 3, 6, 6});
    std::vector<float> values = plain.to_floats();
    const std::vector<float> factors = {0.25F, 8.0F, 2.0F};  // exact
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / 36 % 3];
    const std::vector<float> a = network->run({plain})[0].to_floats(),
                             b = network->run({Tensor::floats({2, 3, 6, 6}, values)})[0].to_floats();
    const std::size_t places = a.size() / 6;
    for (std::size_t i = 0; i < a.size(); ++i)
      CHECK(b[i] == doctest::Approx(a[i] * factors[i / places % 3]).epsilon(1e-6));
    ++tried;
  }
  CHECK(tried >= 8);
}

TEST_CASE("smooth: channels are as large as their columns, at one half") {
  std::mt19937 random(67);
  const crumb::runtime::Engine engine(1);
  NodeBuilder build;
  const std::string x = build.input("x", {6, 5});
  const std::string y = build.node("MatMul", {x, build.constant("a", uneven(random, {5, 7}))});
  const std::string z = build.node("Relu", {y});
  build.graph.outputs = {build.node("MatMul", {z, build.constant("b", uneven(random, {7, 3}))})};
  Setting setting{.graph = crumb::graph::infer_shapes(build.graph), .plan = {}};
  will_be(setting, "a", 1, "int8:channel");
  will_be(setting, "b", 1, "int8:channel");
  const Tensor sample = uneven(random, {6, 5});
  feed(setting, engine, {sample});
  (void)crumb::ptq::run_stages({crumb::parse_stage("smooth")}, setting);
  Graph part = setting.graph;
  part.outputs = {z};
  const auto channels = crumb::ptq::channel_magnitudes(engine.prepare(part)->run({sample})[0], 1),
             columns = crumb::ptq::channel_magnitudes(setting.graph.initializers.at("b"), 0);
  for (std::size_t c = 0; c < 7; ++c)
    if (channels[c] > 0) CHECK(channels[c] == doctest::Approx(columns[c]).epsilon(1e-5));
}

TEST_CASE("bias correction: means of outputs are those of the float layer, of convolutions too") {
  std::mt19937 random(71);
  const crumb::runtime::Engine engine(1);
  for (int round = 0; round < 30; ++round) {
    NodeBuilder build;
    Setting setting;
    const std::int64_t groups = std::vector<std::int64_t>{1, 2, 4}[random() % 3];
    const std::string y = build.node(
        "Conv",
        {build.input("x", {3, 4, 6, 5}), build.constant("w", uneven(random, {8, 4 / groups, 3, 2})),
         build.constant("b", uneven(random, {8}))},
        {{"group", groups},
         {"strides", std::vector<std::int64_t>{1 + static_cast<std::int64_t>(random() % 2), 1}},
         {"pads", std::vector<std::int64_t>{1, 0, 0, 1}}});
    build.graph.outputs = {y};
    setting.graph = crumb::graph::infer_shapes(build.graph);
    will_be(setting, "w", 0, "int2:channel");
    const Graph before = setting.graph;
    const Tensor sample = uneven(random, {3, 4, 6, 5});
    feed(setting, engine, {sample});
    std::vector<crumb::Stage> stages = {crumb::parse_stage("bias_correction")};
    if (random() % 2 == 0) stages.insert(stages.begin(), crumb::parse_stage("gptq"));
    (void)crumb::ptq::run_stages(stages, setting);
    const Graph made = crumb::graph::apply(setting.graph, setting.plan);
    const std::vector<float> a = engine.prepare(before)->run({sample})[0].to_floats(),
                             b = engine.prepare(made)->run({sample})[0].to_floats();
    const std::size_t places = a.size() / (3 * 8);
    for (std::size_t channel = 0; channel < 8; ++channel) {
      double difference = 0, size = 0;
      for (std::size_t image = 0; image < 3; ++image)
        for (std::size_t place = 0; place < places; ++place) {
          const std::size_t at = (image * 8 + channel) * places + place;
          difference += static_cast<double>(a[at]) - static_cast<double>(b[at]);
          size += std::fabs(static_cast<double>(a[at]));
        }
      CHECK(std::fabs(difference) <= 1e-5 * size);
    }
  }
}
