// Pools of maxima over two axes, whose loops are their own: of bytes against those of the same numbers as
// floats, of floats against those of three axes, which take one window after the other.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "runtime/model.h"
#include "tests/graph/node_builder.h"

namespace crumb::runtime {
namespace {

using graph::ElementType;

/// The pool of `x`, which is of this type.
std::vector<Array> pooled(const graph::Node& pool, ElementType type, const Array& x) {
  graph::NodeBuilder builder;
  builder.graph.opsets[""] = 17;
  builder.input("x", x.shape());
  builder.graph.values["x"].type = type;
  builder.graph.outputs = {builder.node("MaxPool", {"x"}, pool.attributes)};
  builder.graph.nodes.back().version = 17;
  return Model(builder.graph).run({x}, {.threads = 2});
}

template <class T>
void check(const graph::Node& pool, ElementType type, const Ints& shape, std::mt19937_64& engine) {
  Array bytes(type, shape), floats(ElementType::kFloat, shape);
  for (T& v : bytes.writable<T>()) v = static_cast<T>(engine());
  std::ranges::copy(bytes.values<T>(), floats.writable<float>().begin());
  const auto found = pooled(pool, type, bytes), expected = pooled(pool, ElementType::kFloat, floats);
  REQUIRE(found[0].shape() == expected[0].shape());
  const auto a = found[0].values<T>();
  const auto b = expected[0].values<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isinf(b[i])) REQUIRE(static_cast<float>(a[i]) == b[i]);
  }
}

/// Over two axes.
graph::Node drawn_pool(std::mt19937_64& engine, int round) {
  const auto from = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  };
  const bool halves = round % 4 == 0;
  Ints kernel, strides, dilations, pads;
  for (int i = 0; i < 2; ++i) {
    kernel.push_back(halves ? 2 : from(1, 4));
    strides.push_back(halves ? 2 : from(1, 3));
    dilations.push_back(halves ? 1 : from(1, 2));
  }
  for (int i = 0; i < 4; ++i)
    pads.push_back(halves ? 0 : from(0, kernel[static_cast<std::size_t>(i % 2)] - 1));
  graph::Node pool;
  pool.attributes = {{"kernel_shape", kernel},
                     {"strides", strides},
                     {"dilations", dilations},
                     {"pads", pads},
                     {"ceil_mode", std::int64_t{round % 3 == 0}}};
  return pool;
}

Ints drawn_shape(std::mt19937_64& engine) {
  const auto from = [&](std::uint64_t low, std::uint64_t high) {
    return static_cast<std::int64_t>(low + engine() % (high - low + 1));
  };
  const std::int64_t batch = from(1, 2), channels = from(1, 5), height = from(8, 40);
  return {batch, channels, height, from(8, 40)};
}

TEST_CASE("maxima of bytes are those of floats") {
  std::mt19937_64 engine(7);
  for (int round = 0; round < 500; ++round) {
    const graph::Node pool = drawn_pool(engine, round);
    const Ints shape = drawn_shape(engine);
    check<std::uint8_t>(pool, ElementType::kUint8, shape, engine);
    check<std::int8_t>(pool, ElementType::kInt8, shape, engine);
  }
}

TEST_CASE(
    "maxima of floats over two axes are those over three, with NaN, zeros of both signs and infinities") {
  constexpr float kOdd[] = {0.0F, -0.0F, 1.0F, -1.0F, INFINITY, -INFINITY, NAN, -NAN};
  std::mt19937_64 engine(8);
  for (int round = 0; round < 500; ++round) {
    graph::Node pool = drawn_pool(engine, round);
    Ints drawn = drawn_shape(engine);
    if (round % 5 == 0) {  // the last axis has one element and one tap
      drawn[3] = 1;
      Ints kernel = pool.ints_or("kernel_shape", {}), pads = pool.ints_or("pads", {});
      kernel[1] = 1;
      pads[1] = pads[3] = 0;
      pool.attributes["kernel_shape"] = kernel;
      pool.attributes["pads"] = pads;
    }
    Array flat(ElementType::kFloat, drawn);
    const bool mostly_zeros = round % 2 == 0;
    for (float& v : flat.writable<float>()) v = kOdd[engine() % (mostly_zeros ? 2 : std::size(kOdd))];
    const auto found = pooled(pool, ElementType::kFloat, flat);
    Ints shape = flat.shape();
    shape.insert(shape.begin() + 2, 1);
    const Array deep = Array::of(ElementType::kFloat, shape, std::as_bytes(flat.values<float>()));
    const auto with_axis = [&](const char* name, std::initializer_list<std::size_t> places,
                               std::int64_t value) {
      Ints values = pool.ints_or(name, {});
      for (const std::size_t place : places)
        values.insert(values.begin() + static_cast<std::ptrdiff_t>(place), value);
      pool.attributes[name] = values;
    };
    with_axis("kernel_shape", {0}, 1);
    with_axis("strides", {0}, 1);
    with_axis("dilations", {0}, 1);
    with_axis("pads", {2, 0}, 0);
    const auto expected = pooled(pool, ElementType::kFloat, deep);
    const auto a = found[0].values<float>(), b = expected[0].values<float>();
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      REQUIRE(std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]));
  }
}

}  // namespace
}  // namespace crumb::runtime
