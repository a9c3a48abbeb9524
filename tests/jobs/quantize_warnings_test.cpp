// The quantizer that ruins a network is named.
#include "jobs/quantize_warnings.h"

#include <doctest/doctest.h>

#include <random>

#include "base/files/text.h"
#include "graph/quantize/apply.h"
#include "graph/quantize/choose_by_samples.h"
#include "jobs/network_report.h"
#include "runtime/engine.h"
#include "tests/graph/quantize/build_graph.h"

namespace crumb::jobs {
namespace {

using graph::QuantPlan;
using graph::Tensor;
using graph::testing::GraphBuilder;

constexpr std::int64_t kChannels = 6, kSide = 6;

/// Convolutions with Relu or Sigmoid between them, some with a residual sum, and a linear layer.
graph::Graph drawn_network(std::mt19937& random) {
  GraphBuilder b({4, kChannels, kSide, kSide});
  b.random.seed(random());
  const std::vector<std::int64_t> pads{1, 1, 1, 1};
  std::string value = "x";
  const std::size_t depth = 3 + random() % 4;
  for (std::size_t i = 0; i < depth; ++i) {
    const std::string name = std::to_string(i);
    b.weight("w" + name, {kChannels, kChannels, 3, 3});
    b.constant("down" + name, {}, {0.15F});
    b.node("Conv", {value, "w" + name}, "c" + name, {{"pads", pads}})
        .node("Mul", {"c" + name, "down" + name}, "s" + name);
    std::string made = "s" + name;
    if (random() % 3 == 0 && i > 0) {
      b.node("Add", {made, value}, "a" + name);
      made = "a" + name;
    }
    b.node(random() % 4 == 0 ? "Sigmoid" : "Relu", {made}, "r" + name);
    value = "r" + name;
  }
  b.weight("head", {kChannels * kSide * kSide, 5})
      .node("Flatten", {value}, "flat")
      .node("MatMul", {"flat", "head"}, "y");
  return b.done();
}

/// Another scale: steps that are far too coarse, or codes that reach not nearly far enough.
void spoil(graph::PlannedEdge& edge, bool is_coarse) { edge.scale *= is_coarse ? 2.0F : 0.5F; }

TEST_CASE("warnings: of 50 drawn networks with one spoiled quantizer it is named, and first in 45") {
  std::mt19937 random(47);
  const runtime::Engine engine(1);
  const Recipe recipe = parse_recipe("weights: int8\nactivations: uint8\n", "r.yaml");
  int named = 0, first = 0;
  int drawn = 0;
  for (int i = 0; i < 50 && drawn < 200; ++drawn) {
    const graph::Graph network = drawn_network(random);
    const graph::Batches batches = [&](const auto& batch) {
      std::mt19937 values(static_cast<unsigned>(drawn));
      std::normal_distribution<float> normal;
      for (int k = 0; k < 2; ++k) {
        std::vector<float> numbers(4 * kChannels * kSide * kSide);
        for (float& number : numbers) number = normal(values);
        batch({Tensor::floats({4, kChannels, kSide, kSide}, numbers)});
      }
    };
    graph::PlanOptions options{.placement = graph::Placement::kWhereIntegersGoOn};
    QuantPlan plan = graph::choose_by_samples(network, recipe, options, engine, batches);
    REQUIRE(plan.edges.size() > 3);
    const std::size_t spoiled = random() % plan.edges.size();
    const bool is_coarse = random() % 2 == 0;
    std::vector<std::string> warnings;
    // As far as there is something to warn of: a residual sum may round to nothing, and the network still be
    // fair.
    for (int doublings = 0; warnings.empty() && doublings < 12; ++doublings) {
      spoil(plan.edges[spoiled], is_coarse);
      for (graph::PlannedEdge& edge : plan.edges) edge.cost.reset();
      graph::measure_costs(network, engine, batches, plan);
      const graph::Graph quantized = graph::apply(network, plan);
      QuantizeReport report{.plan = plan};
      report.comparison = graph::compare(network, quantized, plan, engine, batches, {.takes_codes = true});
      report.tensors = reports_of(network, report.plan, &quantized);
      warnings = warnings_of(report, network, Observer());
    }
    if (warnings.empty()) continue;
    ++i;
    const std::string& text = warnings.back();
    const std::size_t at = text.find("\n  " + quote_text(plan.edges[spoiled].value));
    named += at != std::string::npos;
    first += at != std::string::npos && text.find("\n  ") == at;
  }
  CHECK(named == 50);
  CHECK(first >= 45);
}

TEST_CASE("warnings: a sound network has none") {
  std::mt19937 random(3);
  const runtime::Engine engine(1);
  const graph::Graph network = drawn_network(random);
  const graph::Batches batches = [](const auto& batch) {
    std::vector<float> numbers(4 * kChannels * kSide * kSide);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));
    batch({Tensor::floats({4, kChannels, kSide, kSide}, numbers)});
  };
  graph::PlanOptions options;
  QuantPlan plan = graph::choose_by_samples(
      network, parse_recipe("weights: int8\nactivations: uint8\n", "r.yaml"), options, engine, batches);
  graph::measure_costs(network, engine, batches, plan);
  for (const graph::PlannedEdge& edge : plan.edges) CHECK(edge.cost.value_or(1) < 1e-2);
  QuantizeReport report{.plan = plan};
  report.comparison =
      graph::compare(network, graph::apply(network, plan), plan, engine, batches, {.takes_codes = true});
  CHECK(warnings_of(report, network, Observer()).empty());
}

}  // namespace
}  // namespace crumb::jobs
