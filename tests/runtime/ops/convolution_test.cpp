// Convolutions of floats: every way of reaching the windows has the bits of the definition.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "runtime/exact/products.h"
#include "runtime/ops/convolve.h"
#include "tests/support/number_bits.h"

using crumb::runtime::ConvolutionLayer;
using crumb::runtime::ConvolutionOperands;
using crumb::runtime::Windows;
using crumb::runtime::WindowsAre;
using crumb::testing::number_bits;

namespace {

/// A layer of one to three axes and its operands.
struct DrawnLayer {
  ConvolutionLayer layer;
  ConvolutionOperands operands;
  std::vector<float> x, w, bias;

  explicit DrawnLayer(std::mt19937_64& engine) : engine_(engine) {
    draw_channels();
    draw_windows();
    layer.terms = layer.inputs * layer.windows.taps();
    operands.samples = 1 + below(std::size_t{4});
    const std::size_t channels = operands.samples * layer.groups;
    const std::size_t kind = below(12);
    x = draw(channels * layer.inputs * layer.windows.elements(), kind);
    w = draw(layer.groups * layer.outputs * layer.terms, kind);
    if (below(2) == 0) bias = draw(layer.groups * layer.outputs, kind);
    operands.x = x.data();
    operands.w = w.data();
    operands.bias = bias.empty() ? nullptr : bias.data();
  }

  std::size_t results() const {
    return operands.samples * layer.groups * layer.outputs * layer.windows.positions();
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  std::int64_t below(int n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }

  void draw_channels() {
    const bool is_depthwise = below(2) == 0;
    layer.groups = is_depthwise ? 1 + below(std::size_t{9}) : 1 + below(std::size_t{2});
    layer.inputs = is_depthwise ? 1 : 1 + below(std::size_t{12});
    layer.outputs = is_depthwise ? 1 + below(std::size_t{2}) : 1 + below(std::size_t{20});
  }

  void draw_windows() {
    Windows& windows = layer.windows;
    const std::size_t axes = 1 + below(std::size_t{3});
    const int longest = axes == 1 ? 200 : axes == 2 ? 40 : 9;
    const bool is_single = below(6) == 0, has_padding = below(3) != 0, has_strides = below(2) == 0;
    while (windows.axes() < axes) {
      const std::int64_t kernel = is_single ? 1 : 1 + below(below(2) == 0 ? 3 : 5);
      const std::int64_t dilation = below(3) == 0 ? 1 + below(3) : 1, reach = (kernel - 1) * dilation;
      const std::int64_t stride = has_strides ? 1 + below(4) : 1;
      const std::int64_t size = below(7) == 0 ? 1 : 1 + below(longest);
      const std::int64_t begin = has_padding ? below(4) : 0;
      const std::int64_t end = std::max(has_padding ? below(4) : 0, reach + 1 - size - begin);  // one window
      windows.output.push_back((size + begin + end - reach - 1) / stride + 1);
      windows.kernel.push_back(kernel);
      windows.dilations.push_back(dilation);
      windows.strides.push_back(stride);
      windows.begin.push_back(begin);
      windows.input.push_back(size);
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

/// The element of each tap of a window in a channel; -1 where there is none.
std::vector<std::int64_t> elements_of_window(const Windows& w, std::size_t position) {
  std::vector<std::int64_t> elements;
  for (std::size_t tap = 0; tap < w.taps(); ++tap) {
    auto out = static_cast<std::int64_t>(position), k = static_cast<std::int64_t>(tap);
    std::int64_t at = 0, size = 1;
    for (std::size_t i = w.axes(); i-- > 0; out /= w.output[i], k /= w.kernel[i], size *= w.input[i]) {
      const std::int64_t place = w.place(i, out % w.output[i], k % w.kernel[i]);
      at = place < 0 || at < 0 ? -1 : at + place * size;
    }
    elements.push_back(at);
  }
  return elements;
}

/// By the definition: every output is a dot product of its window, in which zeros are where no element is.
std::vector<float> convolved_by_definition(const DrawnLayer& drawn) {
  const ConvolutionLayer& layer = drawn.layer;
  const std::size_t positions = layer.windows.positions(), elements = layer.windows.elements();
  const std::size_t channels = drawn.operands.samples * layer.groups;
  std::vector<float> y(drawn.results()), terms(layer.terms);
  for (std::size_t at = 0; at < positions; ++at) {
    const std::vector<std::int64_t> window = elements_of_window(layer.windows, at);
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t k = 0; k < layer.terms; ++k) {
        const std::int64_t element = window[k % window.size()];
        const std::size_t channel = c * layer.inputs + k / window.size();
        terms[k] = element < 0 ? 0.0F : drawn.x[channel * elements + static_cast<std::size_t>(element)];
      }
      for (std::size_t n = 0; n < layer.outputs; ++n) {
        const std::size_t row = c % layer.groups * layer.outputs + n;
        float& sum = y[(c * layer.outputs + n) * positions + at];
        sum = crumb::runtime::exact::dot_ref(terms.data(), drawn.w.data() + row * layer.terms, layer.terms);
        if (!drawn.bias.empty()) sum += drawn.bias[row];
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("convolutions: laid out, spread and as chosen, on any threads, have the definition's bits") {
  std::mt19937_64 engine(51);
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    DrawnLayer drawn(engine);
    const std::vector<std::uint32_t> expected = number_bits(convolved_by_definition(drawn));
    const int threads = 1 + round % 3;
    for (const WindowsAre how : {WindowsAre::kFastest, WindowsAre::kLaidOut, WindowsAre::kSpread}) {
      CAPTURE(static_cast<int>(how));
      std::vector<float> y(drawn.results(), 7.0F);
      drawn.operands.y = y.data();
      crumb::runtime::convolve(drawn.layer, drawn.operands, threads, how);
      CHECK(number_bits(y) == expected);
    }
  }
}

TEST_CASE("convolutions: an image that would be large when spread is not spread") {
  // Two elements that are 2^40 apart: padding between them is never written.
  Windows windows;
  windows.kernel = {2};
  windows.strides = {1};
  windows.dilations = {std::int64_t{1} << 40};
  windows.begin = {std::int64_t{1} << 40};
  windows.input = {3};
  windows.output = {3};
  const std::vector<float> x = {1, 2, 3}, w = {5, 7};
  for (const WindowsAre how : {WindowsAre::kFastest, WindowsAre::kLaidOut, WindowsAre::kSpread}) {
    std::vector<float> y(3);
    crumb::runtime::convolve({1, 1, 1, 2, windows}, {1, x.data(), w.data(), nullptr, y.data()}, 1, how);
    CHECK(y == std::vector<float>{7, 14, 21});
  }
}
