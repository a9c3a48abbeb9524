// Transposed convolutions of floats: every way of reaching the terms has the bits of the definition.
#include "runtime/ops/transposed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "runtime/ops/interleave.h"
#include "tests/support/number_bits.h"

using crumb::runtime::TermsAre;
using crumb::runtime::Transposed;
using crumb::runtime::TransposedLayer;
using crumb::runtime::TransposedOperands;
using crumb::runtime::TransposedSizes;
using crumb::testing::number_bits;

namespace {

/// A layer of one to three axes and its operands.
class DrawnTransposed {
 public:
  TransposedLayer layer;
  TransposedSizes sizes;
  TransposedOperands operands;
  std::vector<float> x, w, bias;

  explicit DrawnTransposed(std::mt19937_64& engine) : engine_(engine) {
    const bool is_depthwise = below(3) == 0;
    layer.groups = is_depthwise ? 1 + below(9) : 1 + below(2);
    layer.inputs = is_depthwise ? 1 : 1 + below(20);
    layer.outputs = is_depthwise ? 1 + below(2) : 1 + below(30);
    sizes.samples = 1 + below(3);
    draw_axes();
    const std::size_t kind = below(12);
    x = draw(sizes.samples * layer.groups * layer.inputs * product(sizes.input), kind);
    w = draw(layer.groups * layer.inputs * layer.outputs * layer.taps(), kind);
    if (below(2) == 0) bias = draw(layer.groups * layer.outputs, kind);
    operands = {.x = x.data(), .bias = bias.empty() ? nullptr : bias.data()};
  }

  std::size_t results() const { return sizes.samples * layer.groups * layer.outputs * product(sizes.output); }

 private:
  static std::size_t product(const std::vector<std::int64_t>& of) {
    std::size_t all = 1;
    for (const std::int64_t size : of) all *= static_cast<std::size_t>(size);
    return all;
  }

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  std::int64_t from_one(std::size_t n) { return 1 + static_cast<std::int64_t>(below(n)); }

  /// Cut at both ends, or longer than what the inputs reach; rarely with strides or dilations that a kernel
  /// does not fill.
  void draw_axes() {
    const std::size_t axes = 1 + below(3), longest = axes == 1 ? 150 : axes == 2 ? 14 : 5;
    const bool has_strides = below(4) != 0, fits = below(3) == 0;
    while (layer.kernel.size() < axes) {
      const std::int64_t kernel = from_one(axes == 1 ? 16 : 5);
      const std::int64_t stride = fits ? kernel : has_strides ? from_one(below(20) == 0 ? 70 : 5) : 1;
      const std::int64_t dilation = below(4) == 0 ? from_one(below(8) == 0 ? 40 : 3) : 1;
      const std::int64_t size = below(7) == 0 ? 1 : from_one(longest);
      const std::int64_t full = (size - 1) * stride + (kernel - 1) * dilation + 1;
      const std::int64_t begin = below(2) == 0 ? 0 : std::min(full - 1, from_one(4) - 1);
      const std::int64_t end = below(2) == 0 ? 0 : from_one(6) - 4;
      layer.kernel.push_back(kernel);
      layer.strides.push_back(stride);
      layer.dilations.push_back(dilation);
      sizes.begin.push_back(begin);
      sizes.input.push_back(size);
      sizes.output.push_back(std::max<std::int64_t>(1, full - begin - end));
    }
  }

  /// Numbers of all sizes with zeros of both signs; by `kind`, products below the least number too, or what
  /// is not finite.
  std::vector<float> draw(std::size_t count, std::size_t kind) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& v : values) {
      v = normal(engine_);
      if (below(16) == 0) v = below(2) == 0 ? 0.0F : -0.0F;
      if (kind == 0) v = std::ldexp(v, -80);
      if (kind == 1 && below(100) == 0) v = std::numeric_limits<float>::quiet_NaN();
      if (kind == 2 && below(100) == 0) v = std::numeric_limits<float>::infinity();
    }
    return values;
  }

  std::mt19937_64& engine_;
};

}  // namespace

TEST_CASE(
    "transposed convolutions: laid out, spread and as chosen, on any threads, have the definition's bits") {
  std::mt19937_64 engine(50);
  for (int round = 0; round < 250; ++round) {
    CAPTURE(round);
    DrawnTransposed drawn(engine);
    std::vector<float> expected(drawn.results());
    drawn.operands.y = expected.data();
    crumb::runtime::transposed_ref(drawn.layer, drawn.sizes, drawn.operands, drawn.w.data());
    const Transposed transposed(drawn.layer, drawn.w.data());
    for (const TermsAre how : {TermsAre::kFastest, TermsAre::kLaidOut, TermsAre::kSpread}) {
      CAPTURE(static_cast<int>(how));
      std::vector<float> y(drawn.results(), 7.0F);
      drawn.operands.y = y.data();
      transposed.run(drawn.sizes, drawn.operands, 1 + round % 3, how);
      CHECK(number_bits(y) == number_bits(expected));
    }
  }
}

TEST_CASE("interleave: every row's elements lie as far apart as there are rows") {
  for (std::size_t rows = 1; rows < 10; ++rows) {
    for (std::size_t count = 0; count < 20; ++count) {
      const std::size_t apart = count + rows % 3;
      std::vector<float> from(rows * apart), to(rows * count);
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
      crumb::runtime::interleave(from.data(), apart, rows, count, to.data());
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < count; ++i) REQUIRE(to[i * rows + r] == from[r * apart + i]);
    }
  }
}
