// Constants that are kept as codes: any run of their elements is that of the whole, decoded and permuted.
#include "graph/quantized_constant.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "graph/strided_index.h"
#include "quant/quant_spec.h"
#include "quant/quantizer.h"

namespace crumb::graph {
namespace {

using Floats = std::vector<float>;

/// Levels, element by element.
Floats plain_levels(const QuantizedTensor& tensor) {
  const RowDecoder decoder(tensor.view());
  Floats levels;
  for (std::uint64_t row = 0; row < decoder.rows(); ++row) {
    for (std::uint64_t column = 0; column < decoder.cols(); ++column) {
      std::uint8_t code = 0;
      decoder.codes(row, column, {&code, 1});
      const std::uint64_t block = row / tensor.encoding.block_rows * tensor.layout.blocks_per_row +
                                  column / tensor.encoding.block_cols;
      levels.push_back(decoder.grid().values[code] - decoder.zero_point(block));
    }
  }
  return levels;
}

TEST_CASE("quantized constants: any run of elements is that of the decoded and permuted whole") {
  std::mt19937_64 engine(67);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
  const char* specs[] = {"int8:channel",      "int4:tensor", "uint4:channel:zero=int",
                         "int2h:group=2:pad", "binary",      "uint3:group=3:pad:zero=float",
                         "e2m1:block=2x3:pad"};
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::uint64_t> shape;
    for (std::size_t rank = 1 + below(4); rank > 0; --rank)
      shape.push_back(1 + below(below(5) == 0 ? 40 : 5));
    const QuantSpec spec = QuantSpec::parse(specs[below(std::size(specs))]);
    CAPTURE(shape);
    CAPTURE(spec.to_string());
    Floats values(matrix_shape(shape).take().size());
    std::normal_distribution<float> normal;
    std::ranges::generate(values, [&] { return normal(engine); });
    QuantizedConstant constant{
        .tensor = std::make_shared<const QuantizedTensor>(quantize(spec, values, shape)),
        .axes = tensor_axes(shape.size(), below(shape.size()))};
    if (below(4) == 0) std::ranges::shuffle(constant.axes, engine);
    CAPTURE(constant.axes);

    const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    Floats decoded(values.size());
    dequantize(constant.tensor->view(), decoded);
    const Floats whole = permuted(decoded, sizes, constant.axes),
                 levels = permuted(plain_levels(*constant.tensor), sizes, constant.axes);
    CHECK(constant.value().shape() == permuted_shape(sizes, constant.axes));
    CHECK(constant.value().to_floats() == whole);
    CHECK(levels_of(constant) == levels);
    for (int run = 0; run < 4; ++run) {
      const std::size_t first = below(whole.size() + 1), size = below(whole.size() + 1 - first);
      Floats found(size);
      read_values(constant, first, found);
      CHECK(std::ranges::equal(found, std::span(whole).subspan(first, size)));
      read_levels(constant, first, found);
      CHECK(std::ranges::equal(found, std::span(levels).subspan(first, size)));
    }
  }
}

TEST_CASE("strided index: moving to an element is as many steps") {
  std::mt19937_64 engine(71);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::int64_t> whole, part;
    std::size_t count = 1;
    for (std::size_t rank = below(5); rank > 0; --rank) {
      whole.push_back(static_cast<std::int64_t>(1 + below(5)));
      part.push_back(below(2) == 0 ? 1 : whole.back());
      count *= static_cast<std::size_t>(whole.back());
    }
    part.erase(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(below(part.size() + 1)));
    auto steps = StridedIndex::broadcast(whole, part), moved = steps;
    REQUIRE(steps);
    const std::size_t target = below(count);
    for (std::size_t i = 0; i < target; ++i) steps->next();
    for (std::size_t hops = 1 + below(3); hops > 0; --hops) moved->move_to(hops == 1 ? target : below(count));
    for (std::size_t i = target; i < count; ++i, steps->next(), moved->next())
      CHECK(moved->at() == steps->at());
  }
}

}  // namespace
}  // namespace crumb::graph
