// Both products of recurrent nodes are rounded on what samples bring to them: the node's input, and its
// state.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/quantize/apply.h"
#include "graph/quantized_constant.h"
#include "ptq/samples/sampled_layers.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/settings.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Tensor;

constexpr std::int64_t kSteps = 12, kBatch = 3;

Tensor drawn_floats(std::mt19937& random, const std::vector<std::int64_t>& shape, float width) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::normal_distribution<float> normal(0, width);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return Tensor::floats(shape, values);
}

struct Recurrent {
  std::string op;
  std::int64_t takes = 1, state = 1, gates = 1;
  bool is_reset_behind = false;  ///< of a GRU
};

Recurrent drawn_node(std::mt19937& random) {
  Recurrent made{.op = std::vector<std::string>{"LSTM", "GRU", "RNN"}[random() % 3],
                 .takes = 3 + static_cast<std::int64_t>(random() % 9),
                 .state = 2 + static_cast<std::int64_t>(random() % 9)};
  made.gates = made.op == "LSTM" ? 4 : made.op == "GRU" ? 3 : 1;
  made.is_reset_behind = random() % 2 == 0;
  return made;
}

Graph network_of(const Recurrent& one, std::mt19937& random) {
  graph::NodeBuilder build;
  build.input("x", {kSteps, kBatch, one.takes});
  const std::string w =
      build.constant("w", drawn_floats(random, {1, one.gates * one.state, one.takes}, 0.4F));
  const std::string r =
      build.constant("r", drawn_floats(random, {1, one.gates * one.state, one.state}, 0.4F));
  std::map<std::string, graph::Attribute> attributes{{"hidden_size", one.state}};
  if (one.op == "GRU") attributes["linear_before_reset"] = std::int64_t{one.is_reset_behind};
  if (random() % 3 == 0) attributes["direction"] = std::string("reverse");
  build.graph.outputs = {build.node(one.op, {"x", w, r}, attributes)};
  return graph::infer_shapes(build.graph);
}

/// Samples whose numbers depend on each other.
std::vector<Tensor> drawn_samples(const Recurrent& one, std::mt19937& random) {
  std::vector<Tensor> samples;
  for (int i = 0; i < 6; ++i) {
    std::vector<float> values = drawn_floats(random, {kSteps, kBatch, one.takes}, 1).to_floats();
    for (std::size_t k = 1; k < values.size(); ++k) values[k] = 0.8F * values[k - 1] + 0.6F * values[k];
    samples.push_back(Tensor::floats({kSteps, kBatch, one.takes}, values));
  }
  return samples;
}

/// The network with the plan's codes, or where it has none, those of rounding.
Graph with_codes(const Setting& setting) {
  Graph made = setting.graph;
  for (const graph::PlannedConstant& constant : setting.plan.constants)
    graph::set_codes(made, constant.value, graph::codes_of(constant, setting.graph, 1));
  return made;
}

Tensor output_of(const Graph& graph, const Tensor& sample) {
  return runtime::Engine(1).prepare(graph)->run({sample}).at(0);
}

/// sum |(W - Q) x|^2 over sum |W x|^2, x being rows of what `values` hold.
double share_lost(const Tensor& weight, const std::vector<float>& rounded,
                  const std::vector<Tensor>& values) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto rows = static_cast<Eigen::Index>(weight.shape()[1]),
             columns = static_cast<Eigen::Index>(weight.shape()[2]);
  const std::vector<float> all = weight.to_floats();
  const Eigen::MatrixXd w = Eigen::Map<const Rows>(all.data(), rows, columns).cast<double>(),
                        q = Eigen::Map<const Rows>(rounded.data(), rows, columns).cast<double>();
  double lost = 0, whole = 0;
  for (const Tensor& value : values) {
    const std::vector<float> numbers = value.to_floats();
    const Eigen::MatrixXd x =
        Eigen::Map<const Rows>(numbers.data(), static_cast<Eigen::Index>(numbers.size()) / columns, columns)
            .cast<double>();
    lost += ((w - q) * x.transpose()).squaredNorm();
    whole += (w * x.transpose()).squaredNorm();
  }
  return lost / whole;
}

TEST_CASE("recurrent layers: gptq rounds both products on what comes to them, and networks lose less") {
  std::mt19937 random(1997);
  const runtime::Engine engine(1);
  double of_rounding = 0, of_stage = 0;
  for (int round = 0; round < 40; ++round) {
    const Recurrent one = drawn_node(random);
    CAPTURE(one.op);
    Setting setting{.graph = network_of(one, random), .plan = {}, .threads = 1};
    test::will_be(setting, "w", 1, "int3:channel");
    test::will_be(setting, "r", 1, "int3:channel");
    const std::vector<Tensor> samples = drawn_samples(one, random);
    test::feed(setting, engine, samples);
    const Graph floats = setting.graph;
    const Graph rounded = with_codes(setting);
    const StageReport report = test::run_one("gptq:few=0.5", setting);
    const Graph staged = with_codes(setting);

    std::vector<Tensor> made;
    for (const Tensor& sample : samples) {
      const Tensor meant = output_of(floats, sample);
      made.push_back(meant);
      const auto lost = [&](const Graph& graph) {
        const std::vector<float> found = output_of(graph, sample).to_floats(), wanted = meant.to_floats();
        double sum = 0;
        for (std::size_t i = 0; i < found.size(); ++i)
          sum += (found[i] - wanted[i]) * static_cast<double>(found[i] - wanted[i]);
        return sum;
      };
      of_rounding += lost(rounded);
      of_stage += lost(staged);
    }
    const bool takes_state = one.op != "GRU" || one.is_reset_behind;
    REQUIRE(report.layers.size() == (takes_state ? 2 : 1));
    for (const LayerReport& layer : report.layers) {
      const auto values_of = [&](const Graph& graph) {
        const QuantizedTensor& tensor = *graph.quantized.at(layer.layer).tensor;
        std::vector<float> values(tensor.layout.matrix.size());
        dequantize(tensor.view(), values);
        return values;
      };
      const std::vector<Tensor>& brought = layer.layer == "w" ? samples : made;
      const Tensor& weight = floats.initializers.at(layer.layer);
      CHECK(layer.before == doctest::Approx(share_lost(weight, values_of(rounded), brought)).epsilon(1e-3));
      CHECK(layer.after == doctest::Approx(share_lost(weight, values_of(staged), brought)).epsilon(1e-3));
      CHECK(layer.after <= layer.before);
    }
  }
  CHECK(of_stage < 0.7 * of_rounding);
}

TEST_CASE("recurrent layers: those of both directions keep rounding") {
  std::mt19937 random(4);
  graph::NodeBuilder build;
  build.input("x", {kSteps, kBatch, 5});
  const std::string w = build.constant("w", drawn_floats(random, {2, 16, 5}, 1));
  const std::string r = build.constant("r", drawn_floats(random, {2, 16, 4}, 1));
  build.graph.outputs = {build.node(
      "LSTM", {"x", w, r}, {{"hidden_size", std::int64_t{4}}, {"direction", std::string("bidirectional")}})};
  Setting setting{.graph = graph::infer_shapes(build.graph), .plan = {}};
  test::will_be(setting, "w", 1, "int4:channel");
  CHECK(recurrent_layers(setting.graph, setting.plan).empty());
}

}  // namespace
}  // namespace crumb::ptq
