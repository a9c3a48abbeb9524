// The stage awq against its definition, computed from the samples themselves.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "graph/onnx/infer_shapes.h"
#include "graph/quantized_constant.h"
#include "ptq/stages.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/layers.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::NodeBuilder;
using crumb::graph::Tensor;
using crumb::ptq::Setting;
using crumb::ptq::test::drawn_tensor;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using FloatRows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kNormChannels = 16, kNormOutputs = 12;

MatrixXd read_matrix(const Tensor& tensor) {
  const std::vector<float> values = tensor.to_floats();
  const auto columns = tensor.shape().back();
  return Eigen::Map<const FloatRows>(values.data(), tensor.size() / columns, columns).cast<double>();
}

/// A norm whose gains are uneven, and two matrices that take what it gives.
Setting normed_network(std::mt19937& random, const std::vector<std::string>& specs) {
  NodeBuilder build;
  build.graph.opsets[""] = 24;
  const std::string x = build.input("x", {40, kNormChannels});
  const std::string y =
      build.node("RMSNormalization", {x, build.constant("gain", drawn_tensor(random, {kNormChannels}, true))},
                 {{"axis", std::int64_t{-1}}});
  build.graph.nodes.back().version = 23;
  Setting setting;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::string name = "w" + std::to_string(i);
    build.graph.outputs.push_back(build.node(
        "MatMul", {y, build.constant(name, drawn_tensor(random, {kNormChannels, kNormOutputs}, false))}));
    setting.plan.constants.push_back({.value = name,
                                      .node = name,
                                      .axes = 1,
                                      .spec = crumb::QuantSpec::parse(specs[i]),
                                      .kept_because = "",
                                      .rounded = {}});
  }
  setting.graph = crumb::graph::infer_shapes(build.graph);
  return setting;
}

/// What rounding W s changes of X W, squared, the rows of X being samples.
double loss_of_factors(const Setting& setting, const Graph& graph, const MatrixXd& x, const VectorXd& s) {
  double sum = 0;
  for (const crumb::graph::PlannedConstant& constant : setting.plan.constants) {
    const MatrixXd w = read_matrix(graph.initializers.at(constant.value));
    const FloatRows scaled = (s.asDiagonal() * w).cast<float>();
    const Tensor tensor = Tensor::floats({kNormChannels, kNormOutputs},
                                         {scaled.data(), static_cast<std::size_t>(scaled.size())});
    const MatrixXd made = read_matrix(Tensor::floats(
        {kNormChannels, kNormOutputs},
        crumb::graph::quantize_constant(*constant.spec, tensor, 1, constant.value, 1).value().to_floats()));
    const MatrixXd lost = s.cwiseInverse().asDiagonal() * (made - scaled.cast<double>());
    sum += (x * lost).squaredNorm();
  }
  return sum;
}

}  // namespace

TEST_CASE("awq: the factors that lose least of those of its definition") {
  std::mt19937 random(97);
  const crumb::runtime::Engine engine(1);
  int moved = 0;
  for (int round = 0; round < 40; ++round) {
    const std::vector<std::string> specs = round % 2 == 0
                                               ? std::vector<std::string>{"int3:channel"}
                                               : std::vector<std::string>{"int4:group=8", "e2m1:channel"};
    Setting setting = normed_network(random, specs);
    const Graph before = setting.graph;
    const Tensor sample = drawn_tensor(random, {40, kNormChannels}, true);
    setting.engine = &engine;
    setting.samples = [&](const auto& batch) { batch({sample}); };
    constexpr int kSteps = 8;
    const auto report = crumb::ptq::run_stages({crumb::parse_stage("awq:steps=8")}, setting).at(0);

    Graph part = before;
    part.outputs = {before.nodes[0].outputs[0]};
    const MatrixXd x = read_matrix(engine.prepare(part)->run({sample})[0]);
    const VectorXd sizes = (x.colwise().squaredNorm() / x.colwise().squaredNorm().maxCoeff()).cwiseSqrt();
    double least = loss_of_factors(setting, before, x, VectorXd::Ones(kNormChannels)), first = least;
    for (int step = 1; step < kSteps; ++step) {
      VectorXd s = sizes.cwiseMax(1e-4).array().pow(static_cast<double>(step) / kSteps);
      s /= std::sqrt(s.maxCoeff() * s.minCoeff());
      least = std::min(least, loss_of_factors(setting, before, x, s));
    }
    const VectorXd old = read_matrix(before.initializers.at("gain")).transpose(),
                   now = read_matrix(setting.graph.initializers.at("gain")).transpose();
    const VectorXd taken = old.cwiseQuotient(now);
    // The stage's moments are sums of float32 products, and gains are rounded once.
    CHECK(loss_of_factors(setting, before, x, taken) <= least * (1 + 1e-3));
    double all = 0, reported_before = 0, reported_after = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const MatrixXd w = read_matrix(before.initializers.at("w" + std::to_string(i)));
      all = (x * w).squaredNorm();
      reported_before += report.layers.at(i).before * all;
      reported_after += report.layers.at(i).after * all;
      const MatrixXd moved_matrix = read_matrix(setting.graph.initializers.at("w" + std::to_string(i)));
      CHECK((moved_matrix - MatrixXd(taken.asDiagonal() * w)).cwiseAbs().maxCoeff() <
            1e-5 * moved_matrix.norm());
    }
    CHECK(reported_before == doctest::Approx(first).epsilon(1e-3));
    CHECK(reported_after == doctest::Approx(least).epsilon(1e-3));
    moved += least < first ? 1 : 0;
  }
  CHECK(moved > 20);
}
