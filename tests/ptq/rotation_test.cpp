// The stage rotate: its matrices, and networks that stay what they are.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/quantize/plan.h"
#include "models/decoder_inputs.h"
#include "ptq/matrices/orthogonal_matrix.h"
#include "ptq/stages.h"
#include "ptq/transforms/rotation_sites.h"
#include "quant/recipe/recipe.h"
#include "runtime/engine.h"
#include "tests/models/shared_decoder.h"
#include "tests/ptq/stream_network.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::Tensor;
using crumb::ptq::test::Drawn;
using crumb::ptq::test::StreamNetwork;
using Eigen::MatrixXd;

/// Squared difference over squares.
double share_lost(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double square = 0, lost = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    square += std::pow(static_cast<double>(a[i]), 2);
    lost += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  }
  return lost / square;
}

}  // namespace

TEST_CASE("hadamard: entries are 1 and -1, rows are orthogonal, and sizes that there are are known") {
  int found = 0;
  for (std::size_t size = 1; size <= 260; ++size) {
    const auto made = crumb::ptq::hadamard(size);
    if (!made) continue;
    ++found;
    const auto n = static_cast<Eigen::Index>(size);
    CHECK((made->cwiseAbs().array() == 1).all());
    CHECK(*made * made->transpose() == MatrixXd(MatrixXd::Identity(n, n) * static_cast<double>(size)));
  }
  CHECK(found > 50);
  for (const std::size_t size : {1, 2, 4, 12, 20, 28, 36, 60, 64, 96, 108, 128, 384, 576})
    CHECK(crumb::ptq::hadamard(size).has_value());
  for (const std::size_t size : {0, 3, 5, 6, 7, 9, 10, 18, 50})
    CHECK(!crumb::ptq::hadamard(size).has_value());
}

TEST_CASE("drawn_rotation: orthogonal for every size, of the seed alone") {
  for (std::size_t size = 1; size <= 70; ++size) {
    CAPTURE(size);
    const MatrixXd made = crumb::ptq::drawn_rotation(size, 5);
    const auto n = static_cast<Eigen::Index>(size);
    CHECK((made * made.transpose() - MatrixXd::Identity(n, n)).cwiseAbs().maxCoeff() < 1e-13);
    CHECK(made == crumb::ptq::drawn_rotation(size, 5));
    if (size > 8) CHECK(made != crumb::ptq::drawn_rotation(size, 6));
  }
}

TEST_CASE("rotate: drawn networks stay, and what turns is spread") {
  std::mt19937 random(83);
  const crumb::runtime::Engine engine(1);
  int tied = 0;
  for (int round = 0; round < 150; ++round) {
    Drawn network = StreamNetwork(random).draw();
    const Graph before = network.setting.graph;
    const bool is_online = round % 3 == 0;
    const auto report = crumb::ptq::run_stages({crumb::parse_stage(is_online ? "rotate:online=4" : "rotate")},
                                               network.setting)
                            .at(0);
    const Graph& now = network.setting.graph;
    CHECK(now.initializers.at("table") != before.initializers.at("table"));
    CHECK(report.layers.size() >= 4);
    std::vector<std::int64_t> places(6);
    for (std::int64_t& place : places) place = static_cast<std::int64_t>(random() % 11);
    const std::vector<Tensor> ids = {Tensor::ints({2, 3}, places)};
    const auto meant = engine.prepare(before)->run(ids), found = engine.prepare(now)->run(ids);
    // Each number is rounded to 2^-24 of itself, once or twice, and so is each of some 40 terms of a sum.
    CHECK(share_lost(meant[0].to_floats(), found[0].to_floats()) < 1e-9);
    for (const crumb::graph::PlannedConstant& constant : network.setting.plan.constants)
      CHECK(now.initializers.contains(constant.value));
    tied += network.is_tied ? 1 : 0;
    if (!network.is_tied) CHECK(crumb::ptq::residual_streams(now).sites.size() == 1);  // it can turn again
  }
  CHECK(tied > 40);
}

TEST_CASE("rotate: heads whose values several layers read turn together") {
  std::mt19937 random(85);
  const crumb::runtime::Engine engine(1);
  for (unsigned round = 0; round < 20; ++round) {
    const crumb::DecoderConfig config = crumb::testing::drawn_decoder(random, true);
    CAPTURE(config.model_type);
    CAPTURE(round);
    crumb::ptq::Setting setting;
    const crumb::Recipe recipe = crumb::parse_recipe("version: 1\nweights: int4:channel\n", "test");
    setting.graph = crumb::graph::prepare(crumb::testing::shared_decoder(config, round), recipe);
    setting.plan = crumb::graph::plan_quantizers(setting.graph, recipe);
    const Graph before = setting.graph;
    CHECK(crumb::ptq::attention_heads(before).sites.size() == crumb::testing::layers_with_own(config));
    CHECK(crumb::ptq::attention_heads(before).refusals.empty());
    (void)crumb::ptq::run_stages({crumb::parse_stage("rotate:streams=off")}, setting);
    for (std::size_t i = 0; i < config.layers.size(); ++i) {
      const std::string name = "model.layers." + std::to_string(i) + ".self_attn.o_proj.weight";
      CHECK(setting.graph.initializers.at(name) != before.initializers.at(name));
    }
    std::vector<std::int64_t> ids(7);
    for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % crumb::testing::kSharedWords);
    const std::vector<Tensor> inputs = crumb::models::decoder_inputs(before, ids, 1);
    const auto meant = engine.prepare(before)->run(inputs),
               found = engine.prepare(setting.graph)->run(inputs);
    CHECK(share_lost(meant[0].to_floats(), found[0].to_floats()) < 1e-8);
  }
}

TEST_CASE("rotate: what makes a stream no stream is said, and nothing turns") {
  std::mt19937 random(89);
  const auto refused = [&](const auto& change) {
    Drawn network = StreamNetwork(random).draw();
    Graph& graph = network.setting.graph;
    change(graph);
    graph = crumb::graph::infer_shapes(crumb::graph::sorted(std::move(graph)));
    const Graph before = graph;
    try {
      (void)crumb::ptq::run_stages({crumb::parse_stage("rotate")}, network.setting);
    } catch (const crumb::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto first_sum = [](Graph& graph) -> crumb::graph::Node& {
    for (crumb::graph::Node& node : graph.nodes)
      if (node.is("Add") && graph.rank_of(node.outputs[0]) == std::size_t{3} &&
          !graph.constant(node.inputs[0]) && !graph.constant(node.inputs[1]))
        return node;
    throw crumb::Error("no sum");
  };
  CHECK(refused([&](Graph& graph) {
          graph.outputs.push_back(first_sum(graph).outputs[0]);
        }).find("is an output of the network") != std::string::npos);
  CHECK(refused([&](Graph& graph) { first_sum(graph).op = "Max"; }).find("(Max)") != std::string::npos);
  CHECK(refused([&](Graph& graph) {
          for (crumb::graph::Node& node : graph.nodes)
            if (node.is("RMSNormalization")) node.op = "Softmax", node.inputs.resize(1), node.version = 13;
        }).find("finds nothing to rotate: no residual stream") != std::string::npos);
}
