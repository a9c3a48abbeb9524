// The stage outliers: which weights stay numbers, that the network in floats stays what it is, and what is left for codes.
#include "ptq/transforms/outliers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "graph/quantize/apply.h"
#include "graph/sparse_products.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/layers.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::Tensor;
using crumb::ptq::Setting;
using crumb::ptq::test::drawn_tensor;

struct OutlierCase {
  Setting setting;
  Tensor sample;
};

/// Two layers behind each other: MatMul, and a Gemm whose matrix lies [out, in], with a bias.
OutlierCase outlier_case(std::mt19937& random, const std::string& spec) {
  const auto size = [&] { return static_cast<std::int64_t>(2 + random() % 40); };
  const std::int64_t in = size(), middle = size(), out = size();
  crumb::graph::NodeBuilder build;
  const std::string x = build.input("x", {7, in});
  const std::string y = build.node(
      "Relu",
      {build.node("MatMul", {x, build.constant("a.weight", drawn_tensor(random, {in, middle}, true))})});
  build.graph.outputs = {build.node("Gemm",
                                    {y, build.constant("b.weight", drawn_tensor(random, {out, middle}, true)),
                                     build.constant("b.bias", drawn_tensor(random, {out}))},
                                    {{"transB", std::int64_t{1}}})};
  OutlierCase made{.setting = {.graph = build.graph, .plan = {}, .threads = 2},
                   .sample = drawn_tensor(random, {7, in}, true)};
  for (const auto& [name, axis] : {std::pair("a.weight", std::size_t{1}), {"b.weight", std::size_t{0}}})
    made.setting.plan.constants.push_back(
        {.value = name, .node = "", .axes = axis, .spec = crumb::QuantSpec::parse(spec), .kept_because = ""});
  return made;
}

Tensor run_floats(const Graph& graph, const Tensor& x) {
  return crumb::runtime::Engine(2).prepare(graph)->run({x}).at(0);
}

crumb::ptq::StageReport run_outliers(const std::string& text, Setting& setting) {
  return crumb::ptq::run_stages({crumb::parse_stage(text)}, setting).at(0);
}

/// |f(x)| with every weight, bias and x as large as it is: what a sum's float error is a share of.
std::vector<double> sums_of_sizes(const Graph& graph, const Tensor& x) {
  const auto matrix = [&](const std::string& name) { return graph.initializers.at(name).to_floats(); };
  const std::vector<float> a = matrix("a.weight"), b = matrix("b.weight"), bias = matrix("b.bias"),
                           in = x.to_floats();
  const auto shape = graph.initializers.at("a.weight").shape();
  const auto terms = static_cast<std::size_t>(shape[0]), middle = static_cast<std::size_t>(shape[1]);
  std::vector<double> made;
  for (std::size_t row = 0; row < in.size() / terms; ++row) {
    std::vector<double> y(middle);
    for (std::size_t k = 0; k < terms; ++k)
      for (std::size_t n = 0; n < middle; ++n)
        y[n] += std::fabs(static_cast<double>(in[row * terms + k]) * a[k * middle + n]);
    for (std::size_t n = 0; n < bias.size(); ++n) {
      double sum = std::fabs(bias[n]);
      for (std::size_t k = 0; k < middle; ++k) sum += y[k] * std::fabs(b[n * middle + k]);
      made.push_back(sum);
    }
  }
  return made;
}

}  // namespace

TEST_CASE("outliers: in floats the network stays, and the largest weights are those that go") {
  std::mt19937 random(41);
  for (int i = 0; i < 120; ++i) {
    OutlierCase one = outlier_case(
        random, std::array{"int3:channel", "int2h:channel:search=mse", "e2m1:tensor"}[random() % 3]);
    const Graph before = one.setting.graph;
    const double share = std::array{0.01, 0.1, 0.4}[random() % 3];
    const auto report = run_outliers("outliers:share=" + std::to_string(share), one.setting);
    REQUIRE(report.layers.size() == 2);
    const crumb::graph::Links links(one.setting.graph);
    for (const std::string module : {"a", "b"}) {
      const Tensor whole = before.initializers.at(module + ".weight");
      const std::vector<float> meant = whole.to_floats(),
                               left = one.setting.graph.initializers.at(module + ".weight").to_floats();
      const auto count = static_cast<std::size_t>(std::llround(share * static_cast<double>(meant.size())));
      std::size_t taken = 0;
      double least_taken = HUGE_VAL, most_left = 0;
      for (std::size_t k = 0; k < meant.size(); ++k) {
        const float kept = crumb::graph::as_kept({meant[k]})[0];
        const bool is_taken = left[k] != meant[k];
        // What is left is what 16 bits do not say.
        if (is_taken) REQUIRE(left[k] == meant[k] - kept);
        taken += is_taken ? 1 : 0;
        const double size = std::fabs(meant[k]);
        (is_taken ? least_taken : most_left) =
            is_taken ? std::min(least_taken, size) : std::max(most_left, size);
      }
      CHECK(taken == count);
      if (count > 0 && count < meant.size()) CHECK(least_taken >= most_left);
    }
    const std::vector<float> y = run_floats(before, one.sample).to_floats(),
                             z = run_floats(one.setting.graph, one.sample).to_floats();
    const std::vector<double> sizes = sums_of_sizes(before, one.sample);
    // Sums of at most 42 terms twice, one more addition each, and what is left of a number rounded once.
    constexpr double kRoundings = 2 * (42 + 4) * 0x1p-24;
    for (std::size_t k = 0; k < y.size(); ++k) REQUIRE(std::fabs(y[k] - z[k]) <= kRoundings * sizes[k]);
  }
}

TEST_CASE("outliers: heavy tails lose less") {
  std::mt19937 random(43);
  std::student_t_distribution<float> heavy(2);
  std::vector<float> values(64 * 64);
  for (float& value : values) value = heavy(random);
  crumb::graph::NodeBuilder build;
  build.graph.outputs = {build.node(
      "MatMul", {build.input("x", {1, 64}), build.constant("a.weight", Tensor::floats({64, 64}, values))})};
  Setting setting{.graph = build.graph, .plan = {}, .threads = 1};
  setting.plan.constants.push_back({.value = "a.weight",
                                    .node = "",
                                    .axes = 1,
                                    .spec = crumb::QuantSpec::parse("int3:channel:search=mse"),
                                    .kept_because = ""});
  const auto report = run_outliers("outliers:share=0.02", setting);
  CHECK(report.layers[0].after < 0.5 * report.layers[0].before);
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].starts_with("82 weights stay numbers"));
}

TEST_CASE("outliers: what it cannot do is said") {
  std::mt19937 random(44);
  OutlierCase one = outlier_case(random, "int3:channel");
  CHECK_THROWS_WITH_AS(run_outliers("outliers:share=1", one.setting), doctest::Contains("below 1"),
                       crumb::Error);
  run_outliers("outliers:share=0.1", one.setting);
  CHECK_THROWS_WITH_AS(run_outliers("outliers:share=0.1", one.setting), doctest::Contains("already"),
                       crumb::Error);
  OutlierCase two = outlier_case(random, "int3:channel");
  for (auto& constant : two.setting.plan.constants) constant.spec.reset();
  CHECK_THROWS_WITH_AS(run_outliers("outliers", two.setting), doctest::Contains("finds no matrix"),
                       crumb::Error);
  OutlierCase three = outlier_case(random, "int3:channel");
  three.setting.graph.opsets[""] = 9;
  CHECK_THROWS_WITH_AS(run_outliers("outliers", three.setting), doctest::Contains("found 9"), crumb::Error);
}
