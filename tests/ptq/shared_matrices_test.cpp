// What no station rounds: tables of embeddings, and matrices that several places take.
#include "ptq/rounding/shared_matrices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "graph/onnx/infer_shapes.h"
#include "graph/quantize/apply.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/settings.h"
#include "tests/ptq/stream_network.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::NodeBuilder;
using crumb::graph::PlannedConstant;
using crumb::graph::Tensor;
using crumb::ptq::LayerReport;
using crumb::ptq::Setting;
using crumb::ptq::StageReport;
using crumb::ptq::test::drawn_tensor;

std::vector<Tensor> drawn_ids(std::mt19937& random) {
  std::vector<Tensor> samples;
  for (int i = 0; i < 5; ++i) {
    std::vector<std::int64_t> places(6);
    for (std::int64_t& place : places) place = static_cast<std::int64_t>(random() % 11);
    samples.push_back(Tensor::ints({2, 3}, places));
  }
  return samples;
}

PlannedConstant& planned(Setting& setting, const std::string& name) {
  return *std::ranges::find(setting.plan.constants, name, &PlannedConstant::value);
}

const LayerReport* line_in(const StageReport& report, const std::string& name) {
  const auto found = std::ranges::find(report.layers, name, &LayerReport::layer);
  return found == report.layers.end() ? nullptr : &*found;
}

double squares(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += std::pow(static_cast<double>(value), 2);
  return sum;
}

std::vector<float> less(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> made(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) made[i] = a[i] - b[i];
  return made;
}

/// Of what the nodes give with another matrix in their own's place, in a network that stays as it is, summed over samples.
std::vector<double> squares_beside(const Setting& setting,
                                   const std::vector<const crumb::graph::Node*>& nodes,
                                   const Tensor& matrix) {
  Graph beside = setting.graph;
  beside.initializers["beside"] = matrix;
  beside.values["beside"] = crumb::graph::value_of(matrix);
  beside.outputs.clear();
  for (const crumb::graph::Node* node : nodes) {
    crumb::graph::Node other = *node;
    other.inputs[1] = "beside";
    other.name += "_beside";
    other.outputs = {other.name + "_out"};
    beside.outputs.push_back(other.outputs[0]);
    beside.nodes.push_back(std::move(other));
  }
  std::vector<double> sums(nodes.size());
  const auto network = crumb::runtime::Engine(1).prepare(beside);
  setting.samples([&](const std::vector<Tensor>& sample) {
    const std::vector<Tensor> outputs = network->run(sample);
    for (std::size_t i = 0; i < outputs.size(); ++i) sums[i] += squares(outputs[i].to_floats());
  });
  return sums;
}

/// What the codes of a matrix do to its uses in the float network, each over its squares: the mean, in which look-ups count a
/// quarter.
double mean_error(const Setting& setting, const std::string& matrix, const Tensor& found) {
  const Graph& graph = setting.graph;
  const Tensor& meant = graph.initializers.at(matrix);
  const Tensor error = Tensor::floats(meant.shape(), less(meant.to_floats(), found.to_floats()));
  std::vector<const crumb::graph::Node*> products;
  double sum = 0, uses = 0;
  for (const crumb::graph::Node& node : graph.nodes) {
    if (std::ranges::find(node.inputs, matrix) == node.inputs.end()) continue;
    if (node.is("Gather")) {
      uses += 0.25;
      sum += 0.25 * squares(error.to_floats()) / squares(meant.to_floats());
    } else {
      uses += 1;
      products.push_back(&node);
    }
  }
  const std::vector<double> lost = squares_beside(setting, products, error),
                            all = squares_beside(setting, products, meant);
  for (std::size_t i = 0; i < products.size(); ++i) sum += lost[i] / all[i];
  return sum / uses;
}

/// A matrix that is multiplied by again and again, with what makes outputs of what comes between.
Setting recurrent_network(std::mt19937& random, bool is_transposed, bool is_looked_up) {
  constexpr std::int64_t kSize = 16;
  NodeBuilder build;
  build.graph.opsets[""] = 24;
  const std::string w = build.constant("w", drawn_tensor(random, {kSize, kSize}));
  std::string x;
  if (is_looked_up) {
    x = build.node("Gather", {w, build.input("ids", {7})},
                   {{"axis", static_cast<std::int64_t>(random() % 2)}});
    build.graph.values.at("ids").type = crumb::graph::ElementType::kInt64;
    if (build.graph.nodes.back().int_or("axis", 0) == 1) x = build.node("Transpose", {x});
  } else {
    x = build.input("x", {7, kSize});
  }
  for (unsigned i = 0; i < 2 + random() % 3; ++i) {
    x = is_transposed ? build.node("Gemm", {x, w}, {{"transB", std::int64_t{1}}})
                      : build.node("MatMul", {x, w});
    x = build.node(random() % 2 == 0 ? "Sigmoid" : "Tanh", {x});
  }
  x = build.node("MatMul", {x, build.constant("last", drawn_tensor(random, {kSize, 3}))});
  build.graph.outputs = {x};
  Setting setting;
  setting.graph = crumb::graph::infer_shapes(build.graph);
  crumb::ptq::test::will_be(setting, "w", is_transposed ? 0 : 1, "int3:channel");
  crumb::ptq::test::will_be(setting, "last", 1, "int3:channel");
  return setting;
}

std::vector<Tensor> drawn_rows(std::mt19937& random, bool is_looked_up) {
  std::vector<Tensor> samples;
  for (int i = 0; i < 6; ++i) {
    if (!is_looked_up) {
      samples.push_back(drawn_tensor(random, {7, 16}));
      continue;
    }
    std::vector<std::int64_t> places(7);
    for (std::int64_t& place : places) place = static_cast<std::int64_t>(random() % 16);
    samples.push_back(Tensor::ints({7}, places));
  }
  return samples;
}

}  // namespace

TEST_CASE("gptq: layers see tables of embeddings as these will be") {
  std::mt19937 random(131);
  const crumb::runtime::Engine engine(1);
  int tied = 0, changed = 0;
  for (int round = 0; round < 120; ++round) {
    auto drawn =
        crumb::ptq::test::StreamNetwork(random, round % 2 == 0 ? "int2h:channel" : "int4:channel").draw();
    const std::string stage = "gptq:float_inputs=off:sweeps=" + std::to_string(round % 3);
    Setting setting = drawn.setting, floats = drawn.setting;
    const std::vector<Tensor> samples = drawn_ids(random);
    crumb::ptq::test::feed(setting, engine, samples);
    (void)crumb::ptq::test::run_one(stage, setting);
    // The same codes as in a network whose table has these numbers and stays.
    const auto without_table = [&](const Tensor& table) {
      Setting other = drawn.setting;
      other.graph.initializers.at("table") = table;
      std::erase_if(other.plan.constants, [](const PlannedConstant& one) { return one.value == "table"; });
      crumb::ptq::test::feed(other, engine, samples);
      (void)crumb::ptq::test::run_one(stage, other);
      return other;
    };
    Setting other = without_table(planned(setting, "table").rounded->value());
    for (const PlannedConstant& constant : other.plan.constants) {
      const PlannedConstant& mine = planned(setting, constant.value);
      CHECK(mine.rounded->tensor->codes == constant.rounded->tensor->codes);
      CHECK(mine.rounded->tensor->scales == constant.rounded->tensor->scales);
    }
    tied += drawn.is_tied ? 1 : 0;
    Setting blind = without_table(drawn.setting.graph.initializers.at("table"));
    changed += std::ranges::any_of(blind.plan.constants, [&](const PlannedConstant& constant) {
      return planned(setting, constant.value).rounded->tensor->codes != constant.rounded->tensor->codes;
    });
    if (drawn.is_tied) continue;
    const auto by_spec = crumb::graph::codes_of(planned(drawn.setting, "table"), drawn.setting.graph);
    CHECK(planned(setting, "table").rounded->tensor->codes == by_spec.tensor->codes);
  }
  CHECK(tied > 30);
  CHECK(changed > 60);
}

TEST_CASE("shared matrices: the report has the mean error of all uses, which is less than by rounding") {
  std::mt19937 random(137);
  const crumb::runtime::Engine engine(1);
  double before = 0, after = 0;
  for (int round = 0; round < 160; ++round) {
    CAPTURE(round);
    Setting setting;
    std::string matrix = "w";
    if (round % 2 == 0) {
      const bool is_looked_up = round % 4 == 0;
      setting = recurrent_network(random, random() % 2 == 0, is_looked_up);
      crumb::ptq::test::feed(setting, engine, drawn_rows(random, is_looked_up));
    } else {
      auto drawn = crumb::ptq::test::StreamNetwork(random, "int3:channel").draw();
      if (!drawn.is_tied) continue;
      setting = drawn.setting;
      crumb::ptq::test::feed(setting, engine, drawn_ids(random));
      matrix = "table";
    }
    const auto shared = crumb::ptq::shared_matrices(setting.graph, setting.plan);
    REQUIRE(shared.size() == 1);
    REQUIRE(setting.plan.constants[shared[0].constant()].value == matrix);
    const Tensor rounded = crumb::graph::codes_of(planned(setting, matrix), setting.graph).value();
    const StageReport report = crumb::ptq::test::run_one("gptq", setting);
    const LayerReport* line = line_in(report, matrix);
    REQUIRE(line != nullptr);
    // Moments and products are float32 sums of at most 42 terms, whose errors are squared once more.
    CHECK(line->before == doctest::Approx(mean_error(setting, matrix, rounded)).epsilon(1e-3));
    CHECK(line->after ==
          doctest::Approx(mean_error(setting, matrix, planned(setting, matrix).rounded->value()))
              .epsilon(1e-3));
    CHECK(line->after <= line->before);
    before += line->before;
    after += line->after;
  }
  CHECK(after < 0.8 * before);
}

TEST_CASE("shared matrices: what is taken otherwise, too, keeps rounding") {
  std::mt19937 random(139);
  const crumb::runtime::Engine engine(1);
  for (int round = 0; round < 40; ++round) {
    Setting setting = recurrent_network(random, false, false);
    auto& nodes = setting.graph.nodes;
    const std::string output = setting.graph.outputs[0];
    const auto insert = [&](const std::string& op, std::vector<std::string> inputs,
                            std::map<std::string, crumb::graph::Attribute> attributes = {}) {
      nodes.push_back({.name = "more",
                       .op = op,
                       .domain = "",
                       .version = 13,
                       .inputs = std::move(inputs),
                       .outputs = {"more"},
                       .attributes = std::move(attributes)});
    };
    if (round % 4 == 0) insert("Relu", {"w"});
    if (round % 4 == 1) insert("MatMul", {"w", "w"});
    if (round % 4 == 2) insert("Gemm", {"x", "w"}, {{"transB", std::int64_t{1}}});
    if (round % 4 == 3) insert("Gemm", {"x", "w"}, {{"alpha", 2.0F}});
    setting.graph.outputs.emplace_back("more");
    setting.graph = crumb::graph::infer_shapes(setting.graph);
    CHECK(crumb::ptq::shared_matrices(setting.graph, setting.plan).empty());
    const auto by_spec = crumb::graph::codes_of(planned(setting, "w"), setting.graph);
    crumb::ptq::test::feed(setting, engine, drawn_rows(random, false));
    const StageReport report = crumb::ptq::test::run_one("gptq", setting);
    CHECK(line_in(report, "w") == nullptr);
    CHECK(planned(setting, "w").rounded->tensor->codes == by_spec.tensor->codes);
    CHECK(line_in(report, "last") != nullptr);
  }
}
