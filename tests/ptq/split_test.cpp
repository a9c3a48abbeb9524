// Channels in two copies: networks stay what they are, whatever stands between their layers; ranges shrink; halves round as one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/quantize/apply.h"
#include "ptq/stages.h"
#include "ptq/transforms/channel_splitting.h"
#include "ptq/transforms/split_sites.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/drawn_network.h"
#include "tests/ptq/layers.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::NodeBuilder;
using crumb::graph::Tensor;
using crumb::ptq::ChannelSink;
using crumb::ptq::ChannelSplit;
using crumb::ptq::Setting;
using crumb::ptq::WeightRows;
using crumb::ptq::test::drawn_tensor;
using crumb::ptq::test::DrawnNetwork;
using crumb::ptq::test::run_one;

/// Largest magnitudes of rows, output channels first.
std::vector<float> row_sizes(const Tensor& tensor, std::size_t output_axis) {
  const WeightRows rows = crumb::ptq::weight_rows(tensor, output_axis);
  std::vector<float> sizes(rows.shape[0]);
  const std::size_t columns = rows.values.size() / sizes.size();
  for (std::size_t i = 0; i < rows.values.size(); ++i)
    sizes[i / columns] = std::max(sizes[i / columns], std::fabs(rows.values[i]));
  return sizes;
}

/// As a file that says only the shapes of inputs has them.
Graph inferred_anew(Graph graph) {
  std::erase_if(graph.values, [&](const auto& known) {
    return std::ranges::find(graph.inputs, known.first) == graph.inputs.end();
  });
  return crumb::graph::infer_shapes(std::move(graph));
}

void check_same_network(const Graph& before, const Graph& after, const crumb::runtime::Engine& engine,
                        const Tensor& sample) {
  const auto meant = engine.prepare(before)->run({sample}), found = engine.prepare(after)->run({sample});
  for (std::size_t i = 0; i < meant.size(); ++i) {
    CHECK(meant[i].shape() == found[i].shape());
    const std::vector<float> a = meant[i].to_floats(), b = found[i].to_floats();
    double square = 0, lost = 0;
    for (std::size_t j = 0; j < a.size(); ++j) {
      square += std::pow(static_cast<double>(a[j]), 2);
      lost += std::pow(static_cast<double>(a[j]) - static_cast<double>(b[j]), 2);
    }
    if (!std::isfinite(square)) continue;  // values times themselves, again and again
    // Sums of some 100 terms in another order, and the rest of a half that is rounded to 2^-24 of its row's largest, layer
    // after layer; sums cancel some.
    CHECK(lost <= 1e-9 * square);
  }
}

}  // namespace

TEST_CASE("split: the network stays, its shapes are known, and no range grows") {
  std::mt19937 random(907);
  const crumb::runtime::Engine engine(1);
  std::size_t doubled = 0, none = 0, depthwise = 0, grouped = 0, flattened = 0, met = 0, parameters = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    DrawnNetwork network(random);
    Setting& setting = network.setting;
    const Graph before = setting.graph;
    for (const crumb::ptq::SplitSite& site : crumb::ptq::split_sites(before).sites) {
      depthwise += site.depthwise.size();
      grouped += site.parts > 1;
      flattened += site.values.back().run > 1 || site.values.front().run > 1;
      met += site.sinks.size() > 1;
      parameters += site.sources.size() > 2;
    }
    const double share = std::vector<double>{0.02, 0.1, 0.3, 1}[random() % 4];
    try {
      (void)run_one("split:share=" + std::to_string(share) + (random() % 3 == 0 ? ":even=on" : ""), setting);
    } catch (const crumb::Error& error) {
      CHECK(std::string(error.what()).find("whose channels can be doubled") != std::string::npos);
      ++none;
      continue;
    }
    const Graph& after = setting.graph;
    for (const auto& constant : setting.plan.constants) {
      const Tensor &old = before.initializers.at(constant.value),
                   &now = after.initializers.at(constant.value);
      doubled += old.size() != now.size();
      const std::vector<float> a = row_sizes(old, constant.axes.output),
                               b = row_sizes(now, constant.axes.output);
      // Copies of rows are as large as the row.
      CHECK(std::ranges::max(b) <= std::ranges::max(a));
      if (a.size() == b.size())
        for (std::size_t row = 0; row < a.size(); ++row) CHECK(b[row] <= a[row]);
      CHECK(!constant.spec->misfit(crumb::ptq::weight_rows(now, constant.axes.output).shape));
    }
    const Graph known = inferred_anew(after);
    for (const auto& [name, value] : known.values) {
      const crumb::graph::Value* ours = after.find(name);
      if (ours && ours->shape && value.shape) CHECK(text_of(*ours->shape) == text_of(*value.shape));
    }
    check_same_network(before, after, engine, network.sample);
  }
  CHECK(doubled > 1500);
  CHECK(none < 400);
  for (const std::size_t seen : {depthwise, grouped, flattened, met, parameters}) CHECK(seen > 100);
}

TEST_CASE("split: what becomes of the two layers, as it is written") {
  std::mt19937 random(911);
  for (int round = 0; round < 300; ++round) {
    const auto inputs = 1 + static_cast<std::int64_t>(random() % 4),
               channels = 4 + static_cast<std::int64_t>(random() % 60),
               outputs = 1 + static_cast<std::int64_t>(random() % 5);
    NodeBuilder build;
    Setting setting;
    std::string x = build.input("x", {2, inputs});
    x = build.node("MatMul", {x, build.constant("a", drawn_tensor(random, {inputs, channels}))});
    x = build.node("Tanh", {build.node("Add", {x, build.constant("b", drawn_tensor(random, {channels}))})});
    x = build.node("Gemm", {x, build.constant("w", drawn_tensor(random, {outputs, channels}, true))},
                   {{"transB", std::int64_t{1}}});
    build.graph.outputs = {x};
    setting.graph = crumb::graph::infer_shapes(build.graph);
    crumb::ptq::test::will_be(setting, "w", 0, "int4:tensor");
    const Graph before = setting.graph;
    const auto report = run_one("split:share=0.05:even=on", setting);
    const auto columns = static_cast<std::size_t>(channels), rows = static_cast<std::size_t>(outputs);
    const std::size_t count = (columns + 19) / 20;
    const std::vector<float> a = before.constant("a")->to_floats(), b = before.constant("b")->to_floats(),
                             w = before.constant("w")->to_floats();
    std::vector<std::size_t> order(columns);
    std::vector<float> sizes(columns);
    for (std::size_t k = 0; k < columns; ++k) {
      order[k] = k;
      for (std::size_t o = 0; o < rows; ++o) sizes[k] = std::max(sizes[k], std::fabs(w[o * columns + k]));
    }
    std::ranges::sort(order, [&](std::size_t i, std::size_t j) { return sizes[i] > sizes[j]; });
    order.resize(count);
    std::ranges::sort(order);
    std::vector<float> new_a, new_b = b, new_w;
    for (std::size_t i = 0; i < static_cast<std::size_t>(inputs); ++i) {
      new_a.insert(new_a.end(), a.begin() + static_cast<std::ptrdiff_t>(i * columns),
                   a.begin() + static_cast<std::ptrdiff_t>((i + 1) * columns));
      for (const std::size_t k : order) new_a.push_back(a[i * columns + k]);
    }
    for (const std::size_t k : order) new_b.push_back(b[k]);
    for (std::size_t o = 0; o < rows; ++o) {
      for (std::size_t k = 0; k < columns; ++k)
        new_w.push_back(w[o * columns + k] * (std::ranges::binary_search(order, k) ? 0.5F : 1.0F));
      for (const std::size_t k : order) new_w.push_back(w[o * columns + k] * 0.5F);
    }
    const bool stayed = report.layers.empty();
    CHECK(setting.graph.constant("a")->to_floats() == (stayed ? a : new_a));
    CHECK(setting.graph.constant("b")->to_floats() == (stayed ? b : new_b));
    CHECK(setting.graph.constant("w")->to_floats() == (stayed ? w : new_w));
    if (stayed) CHECK(report.notes.at(0).find("rounding would lose no less") != std::string::npos);
  }
}

TEST_CASE("split: halves that are parted round to what one weight would, of steps that are equal") {
  std::mt19937 random(919);
  std::size_t wider = 0;
  std::map<std::string, std::pair<double, double>> lost;  // parted, equal
  for (int round = 0; round < 1500; ++round) {
    const std::string spec = std::vector<std::string>{
        "int2:channel", "int3:channel",           "int4:tensor",      "int8:channel", "int2h:channel",
        "int3h:tensor", "uint4:channel:zero=int", "int3:group=4:pad", "e2m1:channel", "ternary:channel",
        "e3m0:tensor",  "int4:channel:scale=e8m0"}[random() % 12];
    CAPTURE(spec);
    const std::size_t rows = 1 + random() % 4, channels = 2 + random() % 9, run = 1 + random() % 3;
    const WeightRows weights = crumb::ptq::weight_rows(
        drawn_tensor(random, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(channels * run)},
                     true),
        0);
    const ChannelSink sink{.name = "w", .output_axis = 0, .run = run, .groups = 1, .input = "x"};
    std::vector<std::size_t> doubled;
    for (std::size_t c = 0; c < channels; ++c)
      if (random() % 3 == 0) doubled.push_back(c);
    const ChannelSplit split(channels, 1, doubled);
    const WeightRows even = crumb::ptq::with_halves(weights, sink, split);
    WeightRows parted = even;
    const crumb::QuantSpec parsed = crumb::QuantSpec::parse(spec);
    crumb::ptq::part_halves(parsed, parted, sink, split, 1);
    const auto joined_codes = [&](const WeightRows& of, std::vector<float>& steps) {
      const crumb::FixedScales scales(parsed, of.values, of.shape, "w");
      WeightRows made = of;
      const std::size_t columns = scales.columns();
      for (std::size_t i = 0; i < of.values.size(); ++i) {
        made.values[i] =
            scales.value(i / columns, i % columns, scales.code(i / columns, i % columns, of.values[i]));
        steps.push_back(scales.scale(scales.block_of(i / columns, i % columns)));
      }
      return crumb::ptq::joined_columns(made, sink, split);
    };
    std::vector<float> steps, even_steps;
    const std::vector<double> one = joined_codes(parted, steps), other = joined_codes(even, even_steps),
                              whole = crumb::ptq::joined_columns(parted, sink, split);
    const bool has_equal_steps = parsed.granularity != crumb::Granularity::kGroup && spec[0] != 'e' &&
                                 spec != "ternary:channel" && parsed.zero == crumb::ZeroPoint::kNone &&
                                 parsed.scale != crumb::ScaleFormat::kE8M0;
    const std::size_t columns = channels * run;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const auto w = static_cast<double>(weights.values[i]);
      const double step = static_cast<double>(steps[i / columns * (steps.size() / rows)]);
      // One of the two numbers is rounded; neither is larger than the row's range, 128 steps at most.
      CHECK(std::fabs(whole[i] - w) <= 0x1p-24 * 128 * step + 0x1p-24 * std::fabs(w));
      lost[spec].first += std::pow((one[i] - w) / step, 2);
      lost[spec].second += std::pow((other[i] - w) / step, 2);
      if (!has_equal_steps || !std::ranges::binary_search(doubled, i % columns / run)) continue;
      // x / s is rounded to 2^-24 of at most 128 steps before it is rounded to a code.
      CHECK(std::fabs(one[i] - w) <= step * (0.5 + 0x1p-15));
      wider += std::fabs(other[i] - w) > step * (0.5 + 0x1p-15);
    }
  }
  CHECK(wider > 500);  // equal halves do not
  for (const auto& one : lost) {
    CAPTURE(one.first);
    CHECK(one.second.first < 0.96 * one.second.second);
  }
}

TEST_CASE("split: what cannot be doubled is said") {
  std::mt19937 random(929);
  const auto setting_of = [&](const std::string& between, const std::string& spec, std::int64_t channels) {
    NodeBuilder build;
    build.graph.opsets[""] = 17;
    Setting setting;
    std::string x = build.input("x", {2, 6});
    x = build.node("MatMul", {x, build.constant("a", drawn_tensor(random, {6, channels}))});
    if (between == "result") build.graph.outputs = {x};
    if (between == "LayerNormalization") {
      x = build.node(between, {x, build.constant("g", drawn_tensor(random, {channels}))});
      build.graph.nodes.back().version = 17;
    } else if (between == "shared") {
      x = build.node("Mul", {x, x});
      build.graph.outputs = {build.node("MatMul", {build.node("Relu", {x}), "a"})};
    } else if (between != "result") {
      x = build.node(between, {x});
    }
    build.graph.outputs.push_back(
        build.node("MatMul", {x, build.constant("w", drawn_tensor(random, {channels, 3}, true))}));
    setting.graph = crumb::graph::infer_shapes(build.graph);
    crumb::ptq::test::will_be(setting, "a", 1, "int4");
    crumb::ptq::test::will_be(setting, "w", 1, spec);
    return setting;
  };
  const auto message = [&](Setting setting, const std::string& stage = "split") {
    try {
      std::string all;
      for (const std::string& note : run_one(stage, setting).notes) all += note + "\n";
      return all;
    } catch (const crumb::Error& error) {
      return std::string(error.what());
    }
  };
  const auto says = [&](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  says(message(setting_of("Softmax", "int4", 32)),
       "Softmax stands between, whose channels cannot be doubled");
  says(message(setting_of("LayerNormalization", "int4", 32)), "LayerNormalization stands between");
  says(message(setting_of("result", "int4", 32)), "their input is a result of the network");
  says(message(setting_of("Relu", "int4", 32)), "1 layer ('a') not split: their input is one of the network");
  says(message(setting_of("Relu", "int4:group=32", 32)), "more than a quarter of their channels");
  says(message(setting_of("Relu", "int4", 32), "split:share=1.5"),
       "a number above 0, at most 1, found '1.5'");
  Setting fits = setting_of("Relu", "int2:group=8", 64);
  CHECK(run_one("split", fits).layers.size() == 1);
  CHECK(fits.graph.constant("w")->shape()[0] == 72);  // two of 64 were wanted
  CHECK(fits.graph.constant("a")->shape()[1] == 72);
  Setting rounded = setting_of("Relu", "int4", 32);
  for (auto& constant : rounded.plan.constants)
    constant.rounded = crumb::graph::quantize_constant(
        *constant.spec, *rounded.graph.constant(constant.value), constant.axes.output, constant.value);
  says(message(rounded), "have their codes already");
}
