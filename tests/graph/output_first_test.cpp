// Elements with the output axis first, in pieces: as permuting the whole has them, and back.
#include "graph/output_first.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <vector>

#include "graph/quantized_constant.h"
#include "graph/strided_index.h"

using crumb::graph::OutputFirst;
using crumb::graph::OutputOrder;

TEST_CASE("output first: pieces of any size are those of the permuted constant, and go back") {
  std::mt19937_64 engine(61);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::int64_t> shape;
    for (std::size_t rank = 1 + below(4); rank > 0; --rank)
      shape.push_back(static_cast<std::int64_t>(below(30) == 0 ? 0 : 1 + below(below(4) == 0 ? 40 : 6)));
    const std::size_t axis = below(shape.size());
    CAPTURE(shape);
    CAPTURE(axis);
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    std::vector<float> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 0.0F);
    const auto axes = crumb::graph::tensor_axes(shape.size(), axis);
    const std::vector<float> expected = crumb::graph::permuted(values, shape, crumb::graph::inverse(axes));

    const OutputOrder order(shape, axis);
    OutputFirst stream(values, order);
    for (int twice = 0; twice < 2; ++twice, stream.rewind()) {
      std::vector<float> found, back(values.size(), -1.0F);
      for (auto piece = stream.next(1 + below(40)); !piece.empty(); piece = stream.next(1 + below(40))) {
        order.put(piece, found.size(), back);
        found.insert(found.end(), piece.begin(), piece.end());
      }
      CHECK(found == expected);
      CHECK(back == values);
    }
    const auto known = crumb::graph::output_axis_of(axes);
    REQUIRE(known);
    CHECK(crumb::graph::tensor_axes(shape.size(), *known) == axes);
  }
  CHECK_FALSE(crumb::graph::output_axis_of({2, 1, 0}));
}
