// What moves codes: integers must give the bits of floats, which are exact because scales are powers of two;
// and NaN stays NaN where no product takes the codes.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "runtime/lower/lower.h"
#include "runtime/model.h"
#include "tests/graph/node_builder.h"

namespace crumb::runtime {
namespace {

using graph::ElementType;
using graph::NodeBuilder;
using graph::Tensor;
using Sizes = std::vector<std::int64_t>;

/// Quantizers, what moves elements, concatenations and convolutions over [1, channels, height, width].
struct MovingNetwork {
  NodeBuilder builder;
  std::mt19937_64& engine;
  Sizes input{1, 4, 6, 6};
  std::size_t count = 0, products = 0;

  struct Branch {
    std::string name;
    Sizes shape;
  };

  explicit MovingNetwork(std::mt19937_64& random) : engine(random) {
    builder.graph.opsets[""] = 18;
    Branch now{builder.input("x", input), input};
    for (std::int64_t layer = from(1, 3); layer > 0; --layer) {
      now = quantized(now, from(0, 2));
      while (!one_in(3)) now = one_in(3) ? joined(now) : moved(now);
      if (one_in(8)) now = {builder.node("Relu", {now.name}), now.shape};
      if (!one_in(3)) now = convolved(now);
      if (one_in(4)) now = moved(now);
    }
    if (one_in(2)) now = quantized(now, 0);
    while (one_in(2)) now = moved(now);
    builder.graph.outputs = {now.name};
    for (graph::Node& node : builder.graph.nodes) {
      if (node.domain.empty()) node.version = 18;
    }
  }

  std::int64_t from(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return from(1, n) == 1; }
  Tensor numbers(const Sizes& shape) {
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).value()));
    for (float& v : values) v = static_cast<float>(from(-32, 32)) / 4;
    return Tensor::floats(shape, values);
  }
  std::string constant(const Tensor& tensor) {
    return builder.constant("c" + std::to_string(count++), tensor);
  }
  std::string ints(const Sizes& values) { return constant(Tensor::ints({std::ssize(values)}, values)); }
  Branch made(const std::string& name, const Sizes& shape) {
    builder.graph.values[name] = {.type = ElementType::kFloat,
                                  .shape = graph::Shape(shape.begin(), shape.end())};
    return {name, shape};
  }

  /// One of a few quantizers, so that two are sometimes alike.
  Branch quantized(const Branch& x, std::int64_t which) {
    return made(builder.quant(x.name, Tensor::scalar(which == 2 ? 0.5F : 0.25F), which == 1 ? 3.0F : 0.0F,
                              one_in(2) ? 8.0F : 5.0F, which != 1),
                x.shape);
  }

  Branch moved(const Branch& x) {
    Sizes shape = x.shape;
    const auto node = [&](const char* op, std::vector<std::string> others,
                          std::map<std::string, graph::Attribute> attributes = {}) {
      others.insert(others.begin(), x.name);
      return made(builder.node(op, others, std::move(attributes)), shape);
    };
    switch (from(0, 6)) {
      case 0: {
        if (shape[2] > 12) return x;
        shape[2] *= 2;
        shape[3] = shape[3] * 3 / 2;
        return node("Resize", {"", constant(Tensor::floats({4}, std::array{1.0F, 1.0F, 2.0F, 1.5F}))},
                    {{"mode", std::string("nearest")},
                     {"coordinate_transformation_mode", std::string(one_in(2) ? "asymmetric" : "half_pixel")},
                     {"nearest_mode", std::string(one_in(2) ? "floor" : "round_prefer_ceil")}});
      }
      case 1: {
        if (shape[2] < 4) return x;
        shape[2] -= 2;
        return node("Slice", {ints({1}), ints({-1}), ints({2})});
      }
      case 2: {
        shape[1] = from(1, 5);
        Sizes indices;
        for (std::int64_t i = 0; i < shape[1]; ++i) indices.push_back(from(0, x.shape[1] - 1));
        return node("Gather", {ints(indices)}, {{"axis", std::int64_t{1}}});
      }
      case 3: {
        if (shape[1] % 4 != 0) return node("Identity", {});
        shape = {1, shape[1] / 4, shape[2] * 2, shape[3] * 2};
        return node("DepthToSpace", {}, {{"blocksize", std::int64_t{2}}});
      }
      case 4: {
        if (shape[2] > 12) return x;
        shape[3] *= 2;
        return node("Tile", {ints({1, 1, 1, 2})});
      }
      case 5: {
        std::swap(shape[2], shape[3]);
        return node("Transpose", {}, {{"perm", Sizes{0, 1, 3, 2}}});
      }
      default: {
        // The shape is computed, by nodes behind the one that is reshaped.
        shape = {1, shape[1], shape[3], shape[2]};
        return node("Reshape", {one_in(2) ? ints(shape) : builder.node("Identity", {ints(shape)})});
      }
    }
  }

  /// With values of a quantizer of its own, which has the same numbers or others, or with floats.
  Branch joined(const Branch& x) {
    if (x.shape[1] > 8) return x;
    Branch other = one_in(6) ? Branch{constant(numbers(x.shape)), x.shape} : x;
    if (!one_in(4)) {
      const Branch scaled =
          made(builder.node("Mul", {x.name, constant(Tensor::scalar(one_in(2) ? 2.0F : 0.5F))}), x.shape);
      other = quantized(scaled, from(0, 2));
    }
    if (one_in(3) && other.name != x.name)
      other = made(builder.node("Transpose", {other.name}, {{"perm", Sizes{0, 1, 2, 3}}}), other.shape);
    Sizes shape = x.shape;
    shape[1] *= 2;
    return made(
        builder.node("Concat", one_in(2) ? std::vector{x.name, other.name} : std::vector{other.name, x.name},
                     {{"axis", std::int64_t{1}}}),
        shape);
  }

  Branch convolved(const Branch& x) {
    Sizes shape = x.shape;
    const std::string name = "w" + std::to_string(count++);
    shape[1] = from(1, 4);
    const Sizes kernel{shape[1], x.shape[1], 1, 1};
    builder.graph.quantized[name] =
        graph::quantize_constant(QuantSpec::parse("int4:channel:scale=e8m0"), numbers(kernel), 0, name, 1);
    builder.graph.values[name] = {.type = ElementType::kFloat,
                                  .shape = graph::Shape(kernel.begin(), kernel.end())};
    ++products;
    return made(builder.node("Conv", {x.name, name}), shape);
  }
};

TEST_CASE("what moves codes gives the bits of what moves floats") {
  std::mt19937_64 engine(20261130);
  std::size_t products = 0, integers = 0, on_codes = 0, joined = 0, numbers = 0, nans = 0;
  for (int round = 0; round < 4000; ++round) {
    MovingNetwork drawn(engine);
    const graph::Graph& network = drawn.builder.graph;
    const Lowered lowered = lower(network);
    products += drawn.products;
    integers += lowered.integers.size();
    for (const graph::Node& node : lowered.graph.nodes) {
      const graph::Value* made = lowered.graph.find(node.outputs[0]);
      const bool moves = node.domain.empty() && made && made->type != ElementType::kFloat &&
                         node.outputs[0].ends_with(".codes");
      on_codes += moves ? 1 : 0;
      joined += moves && node.is("Concat") ? 1 : 0;
    }
    Tensor x = drawn.numbers(drawn.input);
    if (drawn.products == 0) {  // NaN, too
      std::vector<float> values = x.to_floats();
      values[engine() % values.size()] = std::numeric_limits<float>::quiet_NaN();
      x = Tensor::floats(drawn.input, values);
    }
    const std::vector<Array> exact = Model(network, Computes::kFloats).run({Array::of(x)}, {.threads = 1}),
                             found = Model(network).run({Array::of(x)}, {.threads = 1});
    REQUIRE(found[0].shape() == exact[0].shape());
    const auto a = found[0].values<float>(), b = exact[0].values<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i])))
        FAIL(round << ": " << a[i] << " is not " << b[i]);
      nans += std::isnan(a[i]) ? 1 : 0;
    }
    numbers += a.size();
  }
  MESSAGE(integers << " of " << products << " products in integers, " << on_codes << " nodes move codes, "
                   << joined << " join them");
  CHECK(integers > products * 3 / 5);  // not behind Concat of other quantizers, nor behind Relu
  CHECK(on_codes > 3000);
  CHECK(joined > 300);
  CHECK(nans > 200);
  CHECK(numbers > 300'000);
}

}  // namespace
}  // namespace crumb::runtime
