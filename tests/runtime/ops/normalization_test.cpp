// Norms of rows against their definition, whatever shape scale and bias have: sums are exact::sum_of().
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "runtime/exact/products.h"
#include "runtime/model.h"
#include "tests/graph/node_builder.h"
#include "tests/support/number_bits.h"

namespace crumb::runtime {
namespace {

using graph::NodeBuilder;
using graph::Tensor;

struct DrawnNorm {
  bool is_rms = false;
  std::size_t axis = 0;
  float epsilon = 1e-5F;
  Ints shape, scale_shape;
  std::vector<float> x, scale, bias;

  explicit DrawnNorm(std::mt19937_64& engine) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    std::normal_distribution<float> normal;
    const auto drawn = [&](const Ints& of) {
      std::vector<float> values(static_cast<std::size_t>(graph::count_elements(of).value()));
      for (float& v : values)
        v = below(12) == 0 ? -0.0F : std::ldexp(normal(engine), below(20) == 0 ? 40 : 0);
      return values;
    };
    is_rms = below(2) == 0;
    for (std::size_t rank = 1 + below(4); rank > 0; --rank)
      shape.push_back(static_cast<std::int64_t>(below(30) == 0 ? 0 : 1 + below(rank == 1 ? 70 : 5)));
    axis = below(shape.size());
    scale_shape.assign(
        shape.begin() + static_cast<std::ptrdiff_t>(below(2) == 0 ? axis : below(shape.size())), shape.end());
    for (std::int64_t& size : scale_shape)
      if (below(4) == 0) size = size == 0 ? 0 : 1;
    x = drawn(shape);
    scale = drawn(scale_shape);
    bias = drawn(scale_shape);
  }

  /// Where an element of the whole has its scale.
  std::size_t place_of(std::size_t element) const {
    std::size_t place = 0, step = 1;
    for (std::size_t back = 1; back <= shape.size(); ++back) {
      const auto size = static_cast<std::size_t>(shape[shape.size() - back]);
      if (back <= scale_shape.size()) {
        const auto own = static_cast<std::size_t>(scale_shape[scale_shape.size() - back]);
        place += own == 1 ? 0 : element % size * step;
        step *= own;
      }
      element /= size;
    }
    return place;
  }

  std::vector<float> by_definition() const {
    std::vector<float> y(x.size());
    std::size_t width = 1;
    for (std::size_t i = axis; i < shape.size(); ++i) width *= static_cast<std::size_t>(shape[i]);
    const auto n = static_cast<float>(width);
    for (std::size_t at = 0; at < x.size(); at += width) {
      const float* const row = x.data() + at;
      const float mean = is_rms ? 0 : exact::sum_of(width, [&](std::size_t i) { return row[i]; }) / n;
      const float squares = exact::sum_of(
          width, [&](std::size_t i) { return is_rms ? row[i] * row[i] : (row[i] - mean) * (row[i] - mean); });
      const float inverse = 1.0F / std::sqrt(squares / n + epsilon);
      for (std::size_t i = 0; i < width; ++i) {
        y[at + i] = (row[i] - mean) * inverse * scale[place_of(at + i)];
        if (!is_rms) y[at + i] += bias[place_of(at + i)];
      }
    }
    return y;
  }
};

TEST_CASE("row norms: every element is that of the definition, bit for bit") {
  std::mt19937_64 engine(8);
  std::size_t elements = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    const DrawnNorm drawn(engine);
    NodeBuilder builder;
    builder.graph.opsets[""] = 23;
    std::vector<std::string> inputs{
        builder.input("x", drawn.shape),
        builder.constant("scale", Tensor::floats(drawn.scale_shape, drawn.scale))};
    if (!drawn.is_rms)
      inputs.push_back(builder.constant("bias", Tensor::floats(drawn.scale_shape, drawn.bias)));
    builder.graph.outputs = {builder.node(drawn.is_rms ? "RMSNormalization" : "LayerNormalization", inputs,
                                          {{"axis", static_cast<std::int64_t>(drawn.axis)}})};
    builder.graph.nodes.back().version = 23;
    const Array found =
        Model(builder.graph).run({Array::of(Tensor::floats(drawn.shape, drawn.x))}, {.threads = 1})[0];
    REQUIRE(found.shape() == drawn.shape);
    const auto y = found.values<float>();
    REQUIRE(testing::number_bits(y) == testing::number_bits(drawn.by_definition()));
    elements += y.size();
  }
  CHECK(elements > 100'000);
}

}  // namespace
}  // namespace crumb::runtime
