// Means and variances of channels anew: against a plain oracle, norms that are kept against norms that are folded, and on the network
// that comes out.
#include "ptq/transforms/batch_norm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"
#include "graph/quantize/apply.h"
#include "ptq/matrices/weight_rows.h"
#include "ptq/stages.h"
#include "quant/codes/scaled_rows.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/layers.h"
#include "tests/ptq/settings.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::NodeBuilder;
using crumb::graph::Tensor;
using crumb::ptq::Setting;
using crumb::ptq::test::drawn_tensor;
using crumb::ptq::test::feed;
using crumb::ptq::test::run_one;
using crumb::ptq::test::will_be;
using Ints = std::vector<std::int64_t>;

Tensor positive(std::mt19937& random, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = 0.25F + static_cast<float>(random() % 1000) / 500;
  return Tensor::floats({count}, values);
}

struct Moments {
  std::vector<double> means, variances;
};

/// Of each channel of axis 1, or of the last one of two.
Moments moments_of(const std::vector<Tensor>& values) {
  const auto channels = static_cast<std::size_t>(values[0].shape()[1]);
  Moments made{std::vector<double>(channels), std::vector<double>(channels)};
  for (const bool is_mean : {true, false}) {
    double count = 0;
    std::vector<double> sums(channels);
    for (const Tensor& value : values) {
      const std::vector<float> numbers = value.to_floats();
      const std::size_t inner = numbers.size() / static_cast<std::size_t>(value.shape()[0]) / channels;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::size_t c = i / inner % channels;
        const auto x = static_cast<double>(numbers[i]);
        sums[c] += is_mean ? x : std::pow(x - made.means[c], 2);
      }
      count += static_cast<double>(numbers.size() / channels);
    }
    for (double& sum : sums) sum /= count;
    (is_mean ? made.means : made.variances) = sums;
  }
  return made;
}

std::vector<Tensor> values_of(Graph graph, const std::string& value, const crumb::graph::Engine& engine,
                              const std::vector<Tensor>& samples) {
  graph.outputs = {value};
  const auto network = engine.prepare(graph);
  std::vector<Tensor> made;
  for (const Tensor& sample : samples) made.push_back(network->run({sample})[0]);
  return made;
}

/// Convolutions with norms behind them, and a product in the end; in front of a norm the names of what it takes.
struct NormedNetwork {
  explicit NormedNetwork(std::mt19937& random, std::string spec = "int2:channel") {
    NodeBuilder build;
    std::string x = build.input("x", {4, 4, 6, 6});
    std::int64_t channels = 4;
    for (int i = 0; i < 3; ++i) {
      const std::string n = std::to_string(i);
      const std::int64_t groups = random() % 3 == 0 ? 2 : 1,
                         next = 2 * (1 + static_cast<std::int64_t>(random() % 4));
      std::vector<std::string> inputs = {
          x, build.constant("w" + n, drawn_tensor(random, {next, channels / groups, 3, 3}))};
      if (random() % 2 == 0) inputs.push_back(build.constant("b" + n, drawn_tensor(random, {next})));
      x = build.node("Conv", inputs,
                     {{"group", groups}, {"pads", Ints(4, 1)}, {"strides", Ints{1 + i % 2, 1}}});
      taken.push_back(x);
      x = build.node("BatchNormalization",
                     {x, build.constant("g" + n, drawn_tensor(random, {next})),
                      build.constant("s" + n, drawn_tensor(random, {next})),
                      build.constant("m" + n, drawn_tensor(random, {next})),
                      build.constant("v" + n, positive(random, next))},
                     {{"epsilon", 1e-3F}});
      x = build.node(random() % 2 == 0 ? "Relu" : "LeakyRelu", {x});
      channels = next;
    }
    x = build.node("Flatten", {build.node("GlobalAveragePool", {x})});
    x = build.node("Gemm", {x, build.constant("w3", drawn_tensor(random, {channels, 3})),
                            build.constant("b3", drawn_tensor(random, {3}))});
    build.graph.outputs = {x};
    setting.graph = crumb::graph::infer_shapes(build.graph);
    for (int i = 0; i < 4; ++i) will_be(setting, "w" + std::to_string(i), i < 3 ? 0 : 1, spec);
    for (int i = 0; i < 3; ++i) samples.push_back(drawn_tensor(random, {4, 4, 6, 6}));
  }
  Setting setting;
  std::vector<std::string> taken;
  std::vector<Tensor> samples;
};

}  // namespace

TEST_CASE("batch_norm: scales and biases of layers, by a plain oracle") {
  std::mt19937 random(937);
  const crumb::runtime::Engine engine(1);
  std::size_t changed = 0, kept = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const std::string spec = std::vector<std::string>{
        "int2:channel",           "int3:group=2:pad", "e2m1:channel",           "int2h:channel:scale=bf16",
        "uint3:channel:zero=int", "int3:tensor",      "int3:channel:scale=e8m0"}[random() % 7];
    const std::vector<std::size_t> widths = {3 + random() % 4, 2 + random() % 5, 2 + random() % 5, 2};
    NodeBuilder build;
    Setting setting;
    std::string x = build.input("x", {16, static_cast<std::int64_t>(widths[0])});
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string n = std::to_string(i);
      const auto in = static_cast<std::int64_t>(widths[i]), out = static_cast<std::int64_t>(widths[i + 1]);
      x = build.node("Gemm",
                     {x, build.constant("w" + n, drawn_tensor(random, {out, in})),
                      build.constant("b" + n, drawn_tensor(random, {out}))},
                     {{"transB", std::int64_t{1}}});
      if (i < 2) x = build.node("Relu", {x});
      will_be(setting, "w" + n, 0, spec);
    }
    build.graph.outputs = {x};
    setting.graph = crumb::graph::infer_shapes(build.graph);
    const Graph before = setting.graph;
    std::vector<Tensor> samples;
    for (int i = 0; i < 3; ++i)
      samples.push_back(drawn_tensor(random, {16, static_cast<std::int64_t>(widths[0])}));
    feed(setting, engine, samples);
    const auto plan = setting.plan;
    (void)run_one("batch_norm", setting);
    const Graph made = crumb::graph::apply(setting.graph, setting.plan);
    // Two networks, layer after layer, in double.
    std::vector<std::vector<double>> now, meant;
    for (const Tensor& sample : samples) {
      const std::vector<float> values = sample.to_floats();
      for (std::size_t r = 0; r < 16; ++r)
        now.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(r * widths[0]),
                         values.begin() + static_cast<std::ptrdiff_t>((r + 1) * widths[0]));
    }
    meant = now;
    const auto layer = [&](std::vector<std::vector<double>>& rows, const std::vector<float>& w,
                           const std::vector<float>& b) {
      for (std::vector<double>& row : rows) {
        std::vector<double> next(b.begin(), b.end());
        for (std::size_t o = 0; o < b.size(); ++o)
          for (std::size_t k = 0; k < row.size(); ++k)
            next[o] += static_cast<double>(w[o * row.size() + k]) * row[k];
        row = next;
      }
    };
    const bool takes_gains = spec != "int3:tensor" && spec != "int3:channel:scale=e8m0";
    // Scales are rounded to 8 bits (bf16), else to 11 (f16 of groups) or 24; floats of other sums on top.
    const double rounding = spec.ends_with("bf16")                    ? 0x1p-8
                            : spec.find("group") != std::string::npos ? 0x1p-11
                                                                      : 1e-5;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string n = std::to_string(i);
      const auto& constant = plan.constants[i];
      const std::vector<float> codes =
          crumb::graph::quantize_constant(*constant.spec, *before.constant("w" + n), 0, "w")
              .value()
              .to_floats();
      const std::vector<float> found_w = setting.plan.constants[i].rounded->value().to_floats(),
                               found_b = made.constant("b" + n)->to_floats(),
                               b = before.constant("b" + n)->to_floats();
      auto here = now, there = meant;
      layer(here, codes, b);
      layer(there, before.constant("w" + n)->to_floats(), b);
      for (std::size_t o = 0; o < b.size(); ++o) {
        double m = 0, q = 0, s = 0, t = 0, with_gain = 0, with_mean = 0;
        const auto count = static_cast<double>(here.size());
        for (std::size_t r = 0; r < here.size(); ++r) m += there[r][o] / count, q += here[r][o] / count;
        for (std::size_t r = 0; r < here.size(); ++r)
          s += std::pow(there[r][o] - m, 2) / count, t += std::pow(here[r][o] - q, 2) / count;
        double gain = t > 0 ? std::clamp(std::sqrt(s / t), 0.25, 4.0) : 1;
        for (std::size_t r = 0; r < here.size(); ++r) {
          with_gain += std::pow(gain * (here[r][o] - q) + m - there[r][o], 2);
          with_mean += std::pow(here[r][o] - q + m - there[r][o], 2);
        }
        if (!takes_gains || !(t > 1e-6) || !(s > 1e-6)) gain = 1;
        if (std::fabs(with_gain - with_mean) < 1e-3 * with_mean) continue;  // either may be less in floats
        if (!(with_gain < with_mean)) gain = 1;
        ++(gain == 1 ? kept : changed);
        double stored = 0;  // the mean of what the scales as they are stored give
        for (const std::vector<double>& input : now)
          for (std::size_t k = 0; k < widths[i]; ++k)
            stored += static_cast<double>(found_w[o * widths[i] + k]) * input[k] / count;
        CHECK(std::fabs(static_cast<double>(found_b[o]) - (m - stored)) <=
              1e-4 * (1 + std::fabs(m) + std::fabs(gain * q)));
        for (std::size_t k = 0; k < widths[i]; ++k) {
          const auto w = static_cast<double>(codes[o * widths[i] + k]);
          CHECK(std::fabs(static_cast<double>(found_w[o * widths[i] + k]) - gain * w) <=
                rounding * std::fabs(gain * w));
        }
      }
      // On with what was found, so that errors do not add up.
      layer(now, found_w, found_b);
      layer(meant, before.constant("w" + n)->to_floats(), b);
      for (auto* rows : {&now, &meant})
        for (auto& row : *rows)
          for (double& value : row) value = i < 2 ? std::max(0.0, value) : value;
    }
  }
  CHECK(changed > 500);
  CHECK(kept > 300);
}

TEST_CASE("batch_norm: statistics of norms that are kept are those of the network that comes out") {
  std::mt19937 random(941);
  const crumb::runtime::Engine engine(1);
  std::size_t stayed = 0, own = 0;
  for (int round = 0; round < 60; ++round) {
    NormedNetwork network(random);
    feed(network.setting, engine, network.samples);
    const Graph before = network.setting.graph;
    const auto report = run_one("batch_norm:own=on", network.setting);
    CHECK(report.layers.size() == 4);
    const Graph made = crumb::graph::apply(network.setting.graph, network.setting.plan);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string n = std::to_string(i);
      const std::vector<float> means = made.constant("m" + n)->to_floats(),
                               variances = made.constant("v" + n)->to_floats();
      if (means == before.constant("m" + n)->to_floats()) {
        ++stayed;
        CHECK(std::ranges::any_of(report.notes,
                                  [&](const std::string& note) { return note.starts_with("g" + n + ":"); }));
        continue;
      }
      ++own;
      const Moments moments = moments_of(values_of(made, network.taken[i], engine, network.samples));
      for (std::size_t c = 0; c < means.size(); ++c) {
        CHECK(static_cast<double>(means[c]) ==
              doctest::Approx(moments.means[c]).epsilon(1e-4).scale(1 + std::sqrt(moments.variances[c])));
        CHECK(static_cast<double>(variances[c]) == doctest::Approx(moments.variances[c]).epsilon(1e-4));
      }
    }
  }
  CHECK(own > 20);
  CHECK(stayed > 5);
}

TEST_CASE(
    "batch_norm: what norms give has the float network's mean and variance, kept or folded, and loses less") {
  std::mt19937 random(947);
  const crumb::runtime::Engine engine(1);
  std::size_t channels = 0, with_variance = 0;
  double lost = 0, plain = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    NormedNetwork network(random, round % 2 == 0 ? "int2:channel" : "int3:channel");
    const Graph before = network.setting.graph;
    Setting folded{.graph = crumb::graph::infer_shapes(crumb::graph::fold_batch_norm(before)), .plan = {}};
    for (const auto& [name, tensor] : folded.graph.initializers)
      if (tensor.rank() == 4 || tensor.rank() == 2)
        will_be(folded, name, tensor.rank() == 4 ? 0 : 1, round % 2 == 0 ? "int2:channel" : "int3:channel");
    REQUIRE(folded.plan.constants.size() == 4);
    feed(network.setting, engine, network.samples);
    feed(folded, engine, network.samples);
    const Graph rounded = crumb::graph::apply(before, network.setting.plan);
    const auto report = run_one("batch_norm", network.setting);
    for (const auto& layer : report.layers) CHECK(layer.after <= layer.before * (1 + 1e-9));
    (void)run_one("batch_norm", folded);
    const Graph kept_made = crumb::graph::apply(network.setting.graph, network.setting.plan),
                folded_made = crumb::graph::apply(folded.graph, folded.plan);
    for (const Tensor& sample : network.samples) {
      const std::vector<float> a = engine.prepare(kept_made)->run({sample})[0].to_floats(),
                               b = engine.prepare(folded_made)->run({sample})[0].to_floats(),
                               meant = engine.prepare(before)->run({sample})[0].to_floats(),
                               old = engine.prepare(rounded)->run({sample})[0].to_floats();
      double square = 0, apart = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const auto m = static_cast<double>(meant[i]);
        square += m * m;
        apart += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
        lost += std::pow(static_cast<double>(a[i]) - m, 2);
        plain += std::pow(static_cast<double>(old[i]) - m, 2);
      }
      CHECK(apart <= 1e-6 * square);  // the same codes, sums of floats in another order
    }
    for (const std::string& value : network.taken) {
      const std::size_t at = static_cast<std::size_t>(&value - network.taken.data());
      const std::string given = before.nodes[crumb::graph::Links(before).consumers(value)[0]].outputs[0];
      const Moments now = moments_of(values_of(kept_made, given, engine, network.samples)),
                    meant = moments_of(values_of(before, given, engine, network.samples));
      for (std::size_t c = 0; c < now.means.size(); ++c) {
        CAPTURE(at);
        ++channels;
        CHECK(std::fabs(now.means[c] - meant.means[c]) <=
              1e-4 * (1 + std::fabs(meant.means[c]) + std::sqrt(meant.variances[c])));
        with_variance += std::fabs(now.variances[c] / meant.variances[c] - 1) < 1e-3;
      }
    }
  }
  CHECK(with_variance > channels / 2);
  CHECK(lost < 0.5 * plain);
}

TEST_CASE("batch_norm: what it cannot do is said") {
  std::mt19937 random(953);
  const crumb::runtime::Engine engine(1);
  const auto message = [&](const std::string& stage, Setting& setting) {
    try {
      const auto report = run_one(stage, setting);
      return report.notes.empty() ? std::string() : report.notes.back();
    } catch (const crumb::Error& error) {
      return std::string(error.what());
    }
  };
  const auto says = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const auto layer = [&](bool has_bias, const std::string& spec) {
    NodeBuilder build;
    Setting setting;
    std::vector<std::string> inputs = {build.input("x", {1, 4}),
                                       build.constant("w", drawn_tensor(random, {4, 3}))};
    if (has_bias) inputs.push_back(build.constant("b", drawn_tensor(random, {3})));
    build.graph.outputs = {build.node("Gemm", inputs)};
    setting.graph = crumb::graph::infer_shapes(build.graph);
    will_be(setting, "w", 1, spec);
    feed(setting, engine,
         {drawn_tensor(random, {1, 4}), drawn_tensor(random, {1, 4}), drawn_tensor(random, {1, 4})});
    return setting;
  };
  Setting setting = layer(true, "int3");
  says(message("batch_norm:own=on", setting), "own=on is for batch norms that are kept");
  feed(setting, engine, {drawn_tensor(random, {1, 4})});
  says(message("batch_norm", setting),
       "a variance needs two numbers of a channel, found 1 at node 'Gemm0' (Gemm)");
  feed(setting, engine, {});
  says(message("batch_norm", setting), "found 0 at");
  feed(setting, engine,
       {Tensor::floats({1, 4}, std::vector<float>{1, 2, std::numeric_limits<float>::quiet_NaN(), 4})});
  says(message("batch_norm", setting),
       "what node 'Gemm0' (Gemm) makes of value 'x' holds inf or NaN on the samples");
  setting.engine = nullptr;
  says(message("batch_norm", setting), "needs samples that run through the network");
  Setting without = layer(false, "int3");
  says(message("batch_norm", without), "finds no batch norm that is kept, and no layer");
  for (const std::string spec : {"int3:tensor", "int3:channel:scale=e8m0"}) {
    Setting coarse = layer(true, spec);
    says(message("batch_norm", coarse),
         "1 layer whose scales are not each output's own, or take no factors: means alone");
  }
  // A channel that is always the same keeps its gain.
  Setting constant = layer(true, "int3");
  std::vector<float> w = constant.graph.constant("w")->to_floats();
  for (std::size_t k = 0; k < 4; ++k) w[k * 3 + 1] = 0;
  constant.graph.initializers["w"] = Tensor::floats({4, 3}, w);
  const std::vector<float> b = constant.graph.constant("b")->to_floats();
  (void)run_one("batch_norm", constant);
  CHECK(constant.graph.constant("b")->to_floats()[1] == b[1]);
}

TEST_CASE("scaled rows: values times factors, in formats of scales that take them") {
  std::mt19937 random(967);
  for (const std::string spec :
       {"int4:channel", "int3:group=4:pad", "int2h:group=8:pad", "e2m1:group=4:pad:scale=bf16",
        "palette3:channel", "uint4:channel:zero=float", "nvfp4:pad", "mxfp4:pad", "int4:tensor",
        "int4:block=2x4:pad"}) {
    CAPTURE(spec);
    const crumb::QuantSpec parsed = crumb::QuantSpec::parse(spec);
    const auto codes = crumb::graph::quantize_constant(parsed, drawn_tensor(random, {6, 20}), 0, "w");
    std::vector<double> factors(6);
    for (double& factor : factors) factor = std::exp2(static_cast<double>(random() % 400) / 100 - 2);
    const auto made = crumb::with_scaled_rows(*codes.tensor, factors);
    const bool is_coarse = spec.starts_with("nvfp4") || spec.starts_with("mxfp4") || spec == "int4:tensor" ||
                           spec.find("block") != std::string::npos;
    CHECK(made.has_value() == !is_coarse);
    if (!made) continue;
    const std::vector<float> a = codes.value().to_floats(),
                             b =
                                 crumb::graph::QuantizedConstant{
                                     std::make_shared<const crumb::QuantizedTensor>(*made), codes.axes}
                                     .value()
                                     .to_floats();
    const double rounding = parsed.scale == crumb::ScaleFormat::kF32   ? 0x1p-22
                            : parsed.scale == crumb::ScaleFormat::kF16 ? 0x1p-10
                                                                       : 0x1p-8;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double meant = static_cast<double>(a[i]) * factors[i / 20];
      CHECK(std::fabs(static_cast<double>(b[i]) - meant) <= rounding * std::fabs(meant));
    }
  }
}
