// The stage low_rank: what its adapter and its codes are together.
#include "ptq/transforms/low_rank.h"

#include <doctest/doctest.h>

#include <Eigen/SVD>
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "graph/adapters.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/quantize/apply.h"
#include "ptq/matrices/nearest_of_rank.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"

namespace {

using crumb::Stage;
using crumb::graph::Graph;
using crumb::graph::Tensor;
using crumb::ptq::Setting;
using Eigen::Index;
using Eigen::MatrixXd;

/// Singular values that fall as networks' do: a few large ones over a bulk.
MatrixXd drawn(std::mt19937& random, Index rows, Index columns, double decay) {
  std::normal_distribution<double> normal;
  MatrixXd made = MatrixXd::NullaryExpr(rows, columns, [&](Index, Index) { return normal(random); });
  const Eigen::BDCSVD<MatrixXd> svd(made, Eigen::ComputeThinU | Eigen::ComputeThinV);
  Eigen::VectorXd values(svd.singularValues().size());
  for (Index i = 0; i < values.size(); ++i)
    values[i] = svd.singularValues()[i] * (1 + 20 * std::pow(decay, static_cast<double>(i)));
  return svd.matrixU() * values.asDiagonal() * svd.matrixV().transpose();
}

double left(const MatrixXd& matrix, Index rank) {
  const Eigen::VectorXd values = Eigen::BDCSVD<MatrixXd>(matrix).singularValues();
  return values.tail(values.size() - rank).squaredNorm();
}

struct LayerSizes {
  std::int64_t in, out;
};

/// Two products behind each other, a matrix of either kind.
Graph network(std::mt19937& random, const std::vector<LayerSizes>& layers) {
  crumb::graph::NodeBuilder build;
  std::normal_distribution<float> normal;
  std::string x = build.input("x", {2, layers[0].in});
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::vector<float> values(static_cast<std::size_t>(layers[i].in * layers[i].out));
    for (float& value : values) value = normal(random);
    const std::string name = "layer" + std::to_string(i);
    x = build.node("MatMul", {x, build.constant(name + ".weight",
                                                Tensor::floats({layers[i].in, layers[i].out}, values))});
  }
  build.graph.outputs = {x};
  return build.graph;
}

}  // namespace

TEST_CASE("low rank: next to nothing is lost against the singular value decomposition") {
  std::mt19937 random(4);
  for (int i = 0; i < 60; ++i) {
    const auto size = [&] { return static_cast<Index>(1 + random() % (i < 50 ? 60 : 180)); };
    const MatrixXd matrix = drawn(random, size(), size(), std::array{0.5, 0.9, 0.99}[random() % 3]);
    const Index rank = 1 + static_cast<Index>(random()) % std::min<Index>({matrix.rows(), matrix.cols(), 24});
    CAPTURE(matrix.rows());
    CAPTURE(matrix.cols());
    CAPTURE(rank);
    const crumb::ptq::LowRankFactors found = crumb::ptq::nearest_of_rank(matrix, rank);
    REQUIRE(found.up.cols() == rank);
    const double least = left(matrix, rank), mine = (matrix - found.up * found.down).squaredNorm();
    CHECK(mine <= 1.01 * least + 1e-18 * matrix.squaredNorm());
    CHECK(mine >= least * (1 - 1e-9) - 1e-18 * matrix.squaredNorm());
    for (Index k = 0; k < rank; ++k)
      CHECK(found.up.col(k).norm() == doctest::Approx(found.down.row(k).norm()).epsilon(1e-6));
  }
}

TEST_CASE("low rank: of a matrix without numbers nothing is found") {
  const crumb::ptq::LowRankFactors found = crumb::ptq::nearest_of_rank(MatrixXd::Zero(5, 7), 3);
  CHECK((found.up * found.down).norm() == 0);
}

TEST_CASE("low rank: what adapter and matrix give together is the matrix, and codes of the rest lose less") {
  std::mt19937 random(9);
  for (const std::string spec :
       {"int2h:channel:search=mse", "int3:group=8:pad", "int4:tensor", "mxfp4:pad", "ternary:channel"}) {
    for (const std::size_t rank : {4U, 3U}) {
      const std::string stage = rank == 4 ? "low_rank:rank=4" : "low_rank:rank=3:iterations=4";
      CAPTURE(spec);
      CAPTURE(stage);
      Setting setting{.graph = network(random, {{20, 33}, {33, 6}, {6, 2}}), .plan = {}, .threads = 2};
      const Graph before = setting.graph;
      for (int i = 0; i < 3; ++i)
        setting.plan.constants.push_back({.value = "layer" + std::to_string(i) + ".weight",
                                          .node = "",
                                          .axes = 1,
                                          .spec = crumb::QuantSpec::parse(spec),
                                          .kept_because = ""});
      setting.plan.constants[1].spec.reset();  // stays
      const auto reports = crumb::ptq::run_stages({crumb::parse_stage(stage)}, setting);
      REQUIRE(reports.size() == 1);
      REQUIRE(reports[0].layers.size() == 2);
      const crumb::Adapter adapter = crumb::graph::adapter_of(setting.graph, "low_rank");
      const Graph quantized = crumb::graph::apply(setting.graph, setting.plan);
      CHECK(setting.graph.initializers.at("layer1.weight") == before.initializers.at("layer1.weight"));
      for (const crumb::LowRankUpdate& update : adapter.updates) {
        const std::string weight = update.module + ".weight";
        const std::vector<float> meant = before.initializers.at(weight).to_floats(),
                                 rest = setting.graph.initializers.at(weight).to_floats(),
                                 codes = quantized.quantized.at(weight).value().to_floats(),
                                 plain = crumb::graph::quantize_constant(crumb::QuantSpec::parse(spec),
                                                                         before.initializers.at(weight), 1,
                                                                         weight)
                                             .value()
                                             .to_floats();
        CHECK(update.rank == std::min({rank, update.in, update.out}));
        double all = 0, error = 0, rounding = 0;
        for (std::size_t in = 0; in < update.in; ++in) {
          for (std::size_t out = 0; out < update.out; ++out) {
            double sum = 0;
            for (std::size_t k = 0; k < update.rank; ++k)
              sum += static_cast<double>(update.up[out * update.rank + k]) *
                     static_cast<double>(update.down[k * update.in + in]);
            const std::size_t at = in * update.out + out;
            CHECK(sum + static_cast<double>(rest[at]) == doctest::Approx(meant[at]).epsilon(1e-5).scale(4));
            all += static_cast<double>(meant[at]) * static_cast<double>(meant[at]);
            error += std::pow(static_cast<double>(meant[at]) - sum - static_cast<double>(codes[at]), 2);
            rounding += std::pow(static_cast<double>(meant[at]) - static_cast<double>(plain[at]), 2);
          }
        }
        const auto layer = std::ranges::find(reports[0].layers, weight, &crumb::ptq::LayerReport::layer);
        REQUIRE(layer != reports[0].layers.end());
        CHECK(layer->before == doctest::Approx(rounding / all).epsilon(1e-4));
        CHECK(layer->after == doctest::Approx(error / all).epsilon(1e-4));
        CHECK(error < rounding);
      }
    }
  }
}

TEST_CASE("stages: every one that quantizes is there, and those of training are refused") {
  std::mt19937 random(1);
  for (const crumb::StageInfo& info : crumb::stage_infos()) {
    Setting setting{.graph = network(random, {{4, 3}, {3, 2}}), .plan = {}};
    crumb::graph::NodeBuilder build{.graph = setting.graph};
    const std::string bias = build.constant("bias", Tensor::floats({3}, std::vector<float>(3, 0.5F)));
    const std::string biased = build.node("Add", {build.graph.nodes[0].outputs[0], bias});
    std::swap(build.graph.nodes[1], build.graph.nodes[2]);
    build.graph.nodes[2].inputs[0] = biased;
    setting.graph = crumb::graph::infer_shapes(build.graph);
    for (const char* name : {"layer0.weight", "layer1.weight"})
      setting.plan.constants.push_back(
          {.value = name,
           .node = "",
           .axes = 1,
           .spec = crumb::QuantSpec::parse(info.name == "fisher" ? "palette2" : "int4"),
           .kept_because = "",
           .rounded = {}});
    // The network has no residual stream; values of three channels can turn as it runs.
    const Stage stage = crumb::parse_stage(info.name == "rotate" ? "rotate:online=3" : info.name);
    const crumb::runtime::Engine engine(1);
    setting.engine = &engine;
    setting.samples = [](const auto& batch) {
      std::vector<float> values(8);
      for (std::size_t i = 0; i < 8; ++i) values[i] = static_cast<float>(i % 3) - 0.5F;
      batch({Tensor::floats({2, 4}, values)});
    };
    setting.squared_gradients = [](const crumb::graph::Graph& of, const std::set<std::string>& constants,
                                   const crumb::graph::Batches&, std::size_t) {
      crumb::graph::SquaredGradients made;
      for (const std::string& name : constants)
        made[name].resize(static_cast<std::size_t>(of.initializers.at(name).size()), 1.0F);
      return made;
    };
    if (info.trains)
      CHECK_THROWS_AS(crumb::ptq::run_stages({stage}, setting), crumb::Error);
    else
      CHECK(crumb::ptq::run_stages({stage}, setting).size() == 1);
  }
  Setting nothing{.graph = network(random, {{4, 3}}), .plan = {}};
  CHECK_THROWS_AS(crumb::ptq::run_stages({crumb::parse_stage("low_rank")}, nothing), crumb::Error);
}
