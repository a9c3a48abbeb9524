// Pad against its definition, element by element.
#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <random>

#include "runtime/model.h"
#include "tests/graph/node_builder.h"

namespace crumb::runtime {
namespace {

using graph::NodeBuilder;
using graph::Tensor;

/// The element of an axis that index `at` takes, -1 for the constant; at is in front of, in or behind it.
std::int64_t source_of(std::int64_t at, std::int64_t size, const std::string& mode) {
  if (mode == "constant") return at < 0 || at >= size ? -1 : at;
  while (at < 0 || at >= size) {
    if (mode == "edge") at = at < 0 ? 0 : size - 1;
    if (mode == "wrap") at += at < 0 ? size : -size;
    if (mode == "reflect") at = size == 1 ? 0 : at < 0 ? -at : 2 * (size - 1) - at;
  }
  return at;
}

TEST_CASE("Pad: every element is that of the definition, in all modes, for one to four axes") {
  std::mt19937_64 engine(5);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  };
  std::size_t elements = 0, filled = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string mode = std::array{"constant", "edge", "reflect", "wrap"}[draw(0, 3)];
    const auto rank = static_cast<std::size_t>(draw(1, 4));
    std::vector<std::int64_t> shape(rank), pads(2 * rank, 0), made(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      shape[i] = draw(1, 5);
      if (draw(0, 2) > 0) pads[i] = draw(-1, 4), pads[rank + i] = draw(-1, 4);
      if (shape[i] + pads[i] + pads[rank + i] < 0) pads[i] = 0;
      made[i] = shape[i] + pads[i] + pads[rank + i];
    }
    NodeBuilder builder;
    const std::string x = builder.input("x", shape);
    builder.graph.outputs = {
        builder.node("Pad",
                     {x, builder.constant("pads", Tensor::ints({static_cast<std::int64_t>(2 * rank)}, pads)),
                      builder.constant("fill", Tensor::scalar(-1.0F))},
                     {{"mode", mode}})};
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).value()));
    std::iota(values.begin(), values.end(), 0.0F);
    const Array found =
        Model(builder.graph).run({Array::of(Tensor::floats(shape, values))}, {.threads = 1})[0];
    REQUIRE(found.shape() == made);
    const auto out = found.values<float>();
    std::vector<std::int64_t> index(rank, 0);
    for (std::size_t e = 0; e < out.size(); ++e) {
      std::int64_t at = 0;
      for (std::size_t i = 0; i < rank && at >= 0; ++i) {
        const std::int64_t source = source_of(index[i] - pads[i], shape[i], mode);
        at = source < 0 ? -1 : at * shape[i] + source;
      }
      REQUIRE(out[e] == (at < 0 ? -1.0F : values[static_cast<std::size_t>(at)]));
      filled += at < 0 ? 1 : 0;
      for (std::size_t i = rank; i-- > 0;) {
        if (++index[i] < made[i]) break;
        index[i] = 0;
      }
    }
    elements += out.size();
  }
  CHECK(elements > 100'000);
  CHECK(filled > 10'000);
}

}  // namespace
}  // namespace crumb::runtime
