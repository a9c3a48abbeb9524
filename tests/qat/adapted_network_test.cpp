// Adapters that train on frozen codes: gradients are those of the network with its matrices in floats; the base keeps its
// bits; what is frozen computes what was trained.
#include "qat/adapted_network.h"

#include <doctest/doctest.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <random>

#include "qat/distillation.h"
#include "tests/graph/node_builder.h"
#include "tests/qat/networks.h"

namespace {

using crumb::Adapter;
using crumb::graph::Graph;
using crumb::graph::Tensor;
using crumb::qat::AdaptedNetwork;
using crumb::testing::outputs_of;

constexpr std::int64_t kIn = 12, kInner = 20, kOut = 5;

struct Layers {
  Graph packed, floats;
  at::Tensor first, second;  ///< [in, out], decoded
};

Layers layers() {
  Layers made;
  const auto build = [&](bool is_packed, const at::Tensor& a, const at::Tensor& b) {
    crumb::graph::NodeBuilder builder;
    const auto matrix = [&](const std::string& name, const at::Tensor& values) {
      const Tensor tensor = crumb::libtorch::to_constant(crumb::libtorch::typed(values));
      if (!is_packed) return builder.constant(name, tensor);
      builder.graph.quantized[name] = crumb::graph::quantize_constant(
          crumb::QuantSpec::parse("int2h:channel:search=mse"), tensor, 1, name);
      builder.graph.values[name] = crumb::graph::value_of(tensor);
      return name;
    };
    std::string x = builder.input("x", {8, kIn});
    x = builder.node("Tanh", {builder.node("MatMul", {x, matrix("a.weight", a)})});
    builder.graph.outputs = {builder.node("MatMul", {x, matrix("b.weight", b)})};
    return builder.graph;
  };
  const at::Tensor a = torch::randn({kIn, kInner}), b = torch::randn({kInner, kOut});
  made.packed = build(true, a, b);
  made.floats = build(false, a, b);
  const auto decoded = [&](const char* name) {
    return crumb::libtorch::to_typed(made.packed.quantized.at(name).value()).tensor;
  };
  made.first = decoded("a.weight");
  made.second = decoded("b.weight");
  return made;
}

}  // namespace

TEST_CASE("an adapter's gradients are those of the formula on decoded matrices") {
  torch::manual_seed(1);
  for (int trial = 0; trial < 30; ++trial) {
    const Layers made = layers();
    AdaptedNetwork network = crumb::qat::add_adapters(
        made.packed,
        {.name = "n", .rank = static_cast<std::size_t>(1 + trial % 5), .alpha = 3, .rslora = trial % 2 == 1});
    REQUIRE(network.parameters().size() == 4);
    Adapter adapter = network.adapter();
    std::mt19937 random(static_cast<unsigned>(trial));
    std::normal_distribution<float> normal;
    for (crumb::LowRankUpdate& update : adapter.updates)
      for (float& value : update.up) value = normal(random);
    network.set(adapter);
    CHECK(network.adapter() == adapter);

    const at::Tensor x = torch::randn({8, kIn}), aims = torch::randn({8, kOut});
    std::vector<at::Tensor> parts;  // [in, rank], [rank, out] of each
    for (const crumb::LowRankUpdate& update : adapter.updates) {
      const auto rank = static_cast<std::int64_t>(update.rank);
      parts.push_back(torch::tensor(update.down).view({rank, -1}).t().contiguous().requires_grad_());
      parts.push_back(torch::tensor(update.up).view({-1, rank}).t().contiguous().requires_grad_());
    }
    const auto with = [&](const at::Tensor& y, const at::Tensor& matrix, std::size_t i) {
      const double scale = 3 / (trial % 2 == 1 ? std::sqrt(1.0 + trial % 5) : 1.0 + trial % 5);
      return at::matmul(y, matrix) + at::matmul(at::matmul(y, parts[2 * i]) * scale, parts[2 * i + 1]);
    };
    const at::Tensor meant = with(with(x, made.first, 0).tanh(), made.second, 1);
    const at::Tensor found = network.forward({x}).at(0);
    CHECK(at::allclose(found, meant, 1e-4, 1e-4));
    (meant * aims).sum().backward();
    (found * aims).sum().backward();
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(at::allclose(network.parameters()[i].grad(), parts[i].grad(), 1e-3, 1e-3));
  }
}

TEST_CASE("training wins back what rounding took, and the base keeps its bits") {
  torch::manual_seed(2);
  const Layers made = layers();
  AdaptedNetwork network = crumb::qat::add_adapters(made.packed, {.rank = 4});
  const at::Tensor x = torch::randn({8, kIn});
  const at::Tensor aims = outputs_of(made.floats, x);
  CHECK(at::allclose(network.forward({x}).at(0), outputs_of(made.packed, x), 1e-4, 1e-4));  // up is zero
  torch::optim::AdamW optimizer(network.parameters(), torch::optim::AdamWOptions(2e-2));
  const auto error = [&] { return (network.forward({x}).at(0) - aims).square().mean(); };
  const double before = error().item<double>();
  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    error().backward();
    optimizer.step();
  }
  CHECK(error().item<double>() < 0.02 * before);
  for (const auto type : {crumb::graph::AdapterType::kFloat32, crumb::graph::AdapterType::kBfloat16,
                          crumb::graph::AdapterType::kFloat16, crumb::graph::AdapterType::kInt8}) {
    const Graph frozen = network.freeze(type);
    for (const char* name : {"a.weight", "b.weight"})
      CHECK(frozen.quantized.at(name).tensor == made.packed.quantized.at(name).tensor);
    const double left = (outputs_of(frozen, x) - aims).square().mean().item<double>();
    CHECK(left < 0.05 * before);
    AdaptedNetwork again(frozen, "recovery");
    CHECK(at::allclose(again.forward({x}).at(0), outputs_of(frozen, x), 1e-4, 1e-4));
  }
  CHECK(at::allclose(outputs_of(network.freeze(), x), network.forward({x}).at(0), 1e-5, 1e-5));
}

TEST_CASE("which matrices get an adapter, and what is refused") {
  torch::manual_seed(3);
  const Layers made = layers();
  const auto modules = [&](std::vector<std::string> targets) {
    std::vector<std::string> found;
    for (const auto& update :
         crumb::qat::fresh_adapter(made.packed, {.rank = 2, .targets = std::move(targets)}).updates)
      found.push_back(update.module);
    return found;
  };
  CHECK(modules({"*"}) == std::vector<std::string>{"a", "b"});
  CHECK(modules({"b"}) == std::vector<std::string>{"b"});
  CHECK(modules({"re:a\\.weight", "b.*"}) == std::vector<std::string>{"a", "b"});
  CHECK_THROWS_WITH_AS(modules({"b", "c"}), doctest::Contains("target 'c'"), crumb::Error);
  CHECK_THROWS_WITH_AS(crumb::qat::fresh_adapter(made.packed, {.rank = 6}), doctest::Contains("5 x 20"),
                       crumb::Error);
  CHECK_THROWS_AS(crumb::qat::fresh_adapter(made.packed, {.rank = 0}), crumb::Error);
  CHECK_THROWS_WITH_AS(AdaptedNetwork(made.packed, "recovery"), doctest::Contains("no adapter 'recovery'"),
                       crumb::Error);
  const Adapter one = crumb::qat::fresh_adapter(made.packed, {.rank = 2}),
                same = crumb::qat::fresh_adapter(made.packed, {.rank = 2}),
                other = crumb::qat::fresh_adapter(made.packed, {.rank = 2, .seed = 1});
  CHECK(one == same);
  CHECK(one.updates[0].down != other.updates[0].down);
  for (const float value : one.updates[0].down) CHECK(std::fabs(value) <= 1 / std::sqrt(12.0F));
  Adapter wrong = one;
  wrong.updates.pop_back();
  AdaptedNetwork network = crumb::qat::add_adapters(made.packed, {.rank = 2});
  CHECK_THROWS_WITH_AS(network.set(wrong), doctest::Contains("expected 2"), crumb::Error);
}
