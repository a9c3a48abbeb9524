// The stage rotate: its matrices, and networks that stay what they are.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/onnx/infer_shapes.h"
#include "ptq/orthogonal_matrix.h"
#include "ptq/rotation_sites.h"
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

/// What a drawn network has that the stage meets.
struct Drawn {
  Setting setting;
  std::int64_t width = 0;
  bool is_tied = false;  ///< its embeddings are its head
};

/// A table of embeddings, layers with norms before their matrices, some with biases, gates and products, and a head.
class StreamNetwork {
 public:
  explicit StreamNetwork(std::mt19937& random) : random_(random) {}

  Drawn draw() {
    made_.width = std::vector<std::int64_t>{4, 6, 7, 8, 12, 20, 36}[random_() % 7];
    made_.is_tied = flip();
    const std::string table = build_.constant("table", drawn_tensor(random_, {11, made_.width}));
    planned(table, 0);
    std::string x = build_.node("Gather", {table, ids()});
    if (flip()) x = build_.node("Mul", {x, build_.constant("embedding_scale", Tensor::scalar(2.5F))});
    for (unsigned i = 0; i < 1 + random_() % 3; ++i) x = build_.node("Add", {x, branch(norm(x))});
    if (flip()) x = build_.node("Identity", {x});
    x = norm(x);
    if (made_.is_tied) {
      const std::string rows = build_.node(
          "Reshape",
          {x, build_.constant("rows", Tensor::ints({2}, std::vector<std::int64_t>{-1, made_.width}))});
      x = build_.node("Gemm", {rows, table}, {{"transB", std::int64_t{1}}});
    } else {
      x = linear(x, made_.width, 11);
    }
    build_.graph.outputs = {x};
    build_.graph.opsets[""] = 24;
    made_.setting.graph = crumb::graph::infer_shapes(build_.graph);
    return std::move(made_);
  }

 private:
  bool flip() { return random_() % 2 == 0; }

  std::string ids() {
    const std::string name = build_.input("ids", {2, 3});
    build_.graph.values.at(name).type = crumb::graph::ElementType::kInt64;
    return name;
  }

  std::string named(const char* wish, const std::vector<std::int64_t>& shape) {
    return build_.constant(wish + std::to_string(next_++), drawn_tensor(random_, shape));
  }

  void planned(const std::string& name, std::size_t axis) {
    made_.setting.plan.constants.push_back({.value = name,
                                            .node = "node of " + name,
                                            .output_axis = axis,
                                            .spec = crumb::QuantSpec::parse("int4:channel"),
                                            .kept_because = "",
                                            .rounded = {}});
  }

  std::string norm(const std::string& x) {
    const std::string gain =
        flip() ? named("gain", {made_.width})
               : build_.constant(
                     "ones" + std::to_string(next_++),
                     Tensor::floats({made_.width},
                                    std::vector<float>(static_cast<std::size_t>(made_.width), 1.0F)));
    const std::string y = build_.node("RMSNormalization", {x, gain}, {{"axis", std::int64_t{-1}}});
    build_.graph.nodes.back().version = 23;
    return y;
  }

  std::string linear(const std::string& x, std::int64_t in, std::int64_t out) {
    const std::string weight = named("w", {in, out});
    planned(weight, 1);
    std::string y = build_.node("MatMul", {x, weight});
    if (flip()) y = build_.node("Add", {y, named("b", {out})});
    return y;
  }

  std::string branch(const std::string& x) {
    const std::int64_t inner = std::vector<std::int64_t>{5, 8, 16}[random_() % 3];
    const std::string gate = build_.node("Sigmoid", {linear(x, made_.width, inner)});
    const std::string y = build_.node("Mul", {gate, linear(x, made_.width, inner)});
    return linear(y, inner, made_.width);
  }

  std::mt19937& random_;
  NodeBuilder build_;
  Drawn made_;
  int next_ = 0;
};

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
        }).find("finds nothing to turn: no residual stream") != std::string::npos);
}
