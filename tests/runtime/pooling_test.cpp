// Pools of maxima of bytes, whose loops are their own, against those of the same numbers as floats.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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

TEST_CASE("maxima of bytes are those of floats") {
  std::mt19937_64 engine(7);
  const auto from = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 500; ++round) {
    const bool halves = round % 4 == 0;
    graph::Node pool;
    Ints kernel, strides, dilations, pads;
    for (int i = 0; i < 2; ++i) {
      kernel.push_back(halves ? 2 : from(1, 4));
      strides.push_back(halves ? 2 : from(1, 3));
      dilations.push_back(halves ? 1 : from(1, 2));
    }
    for (int i = 0; i < 4; ++i)
      pads.push_back(halves ? 0 : from(0, kernel[static_cast<std::size_t>(i % 2)] - 1));
    pool.attributes = {{"kernel_shape", kernel},
                       {"strides", strides},
                       {"dilations", dilations},
                       {"pads", pads},
                       {"ceil_mode", std::int64_t{round % 3 == 0}}};
    const Ints shape = {from(1, 2), from(1, 5), from(8, 40), from(8, 40)};
    check<std::uint8_t>(pool, ElementType::kUint8, shape, engine);
    check<std::int8_t>(pool, ElementType::kInt8, shape, engine);
  }
}

}  // namespace
}  // namespace crumb::runtime
