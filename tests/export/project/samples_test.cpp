// Samples that drive sums as far as they go, against convolutions written plainly.
#include "export/project/samples.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"

namespace crumb::exporting {
namespace {

using graph::Tensor;

using Ints = std::vector<std::int64_t>;

struct Convolution {
  std::int64_t groups, in, out;  // channels of one group
  Ints size, kernel, strides, dilations, pads;
  std::vector<float> weight;  // [groups * out, in, kernel...]

  std::int64_t taps() const { return kernel[0] * kernel[1]; }
  std::int64_t windows(std::size_t axis) const {
    return (size[axis] + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel[axis] - 1) - 1) /
               strides[axis] +
           1;
  }

  /// Of one sample x [groups * in, size...], at each window, for channel m.
  std::vector<double> sums(const float* x, std::int64_t m) const {
    std::vector<double> made;
    for (std::int64_t row = 0; row < windows(0); ++row) {
      for (std::int64_t column = 0; column < windows(1); ++column) {
        double sum = 0;
        for (std::int64_t c = 0; c < in; ++c) {
          for (std::int64_t tap = 0; tap < taps(); ++tap) {
            const std::int64_t i = row * strides[0] - pads[0] + tap / kernel[1] * dilations[0],
                               j = column * strides[1] - pads[1] + tap % kernel[1] * dilations[1];
            if (i < 0 || j < 0 || i >= size[0] || j >= size[1]) continue;
            sum += static_cast<double>(weight[static_cast<std::size_t>((m * in + c) * taps() + tap)]) *
                   static_cast<double>(x[((m / out * in + c) * size[0] + i) * size[1] + j]);
          }
        }
        made.push_back(sum);
      }
    }
    return made;
  }
};

TEST_CASE("samples: every channel's sum goes as far as its codes and the input's range allow, both ways") {
  std::mt19937 engine(3);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine);
  };
  for (int round = 0; round < 60; ++round) {
    Convolution c{.groups = draw(1, 3), .in = draw(1, 3), .out = draw(1, 2)};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      c.kernel.push_back(draw(1, 3));
      c.strides.push_back(draw(1, 3));
      c.dilations.push_back(draw(1, 2));
      c.size.push_back(c.dilations[axis] * (c.kernel[axis] - 1) + 1 + c.strides[axis] +
                       draw(0, 3));  // a window fits
    }
    for (int i = 0; i < 4; ++i) c.pads.push_back(draw(0, 1));
    for (std::int64_t i = 0; i < c.groups * c.out * c.in * c.taps(); ++i)
      c.weight.push_back(static_cast<float>(draw(-7, 7)));

    graph::NodeBuilder net;
    const std::string x = net.input("x", {1, c.groups * c.in, c.size[0], c.size[1]});
    const std::string taken = net.quant(x, Tensor::scalar(0.5F), 0, 4, round % 2 == 0);
    const std::string w = net.quant(
        net.constant("w", Tensor::floats({c.groups * c.out, c.in, c.kernel[0], c.kernel[1]}, c.weight)),
        Tensor::scalar(1.0F), 0, 4);
    net.graph.outputs = {net.node(
        "Conv", {taken, w},
        {{"group", c.groups}, {"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}})};
    const double low = round % 2 == 0 ? -4 : 0, high = round % 2 == 0 ? 3.5 : 7.5;
    const Tensor samples =
        sample_inputs(graph::infer_shapes(net.graph),
                      {{"x", {.low = low, .high = high, .step = 0.5, .is_quantized_first = true}}})
            .at(0);
    const std::vector<float> values = samples.to_floats();
    const auto each = static_cast<std::size_t>(c.groups * c.in * c.size[0] * c.size[1]);
    for (std::int64_t m = 0; m < c.groups * c.out; ++m) {
      double most = 0, least = 0, found_most = 0, found_least = 0;
      for (std::int64_t t = 0; t < c.in * c.taps(); ++t) {
        const double code = c.weight[static_cast<std::size_t>(m * c.in * c.taps() + t)];
        most += std::max(code * low, code * high);
        least += std::min(code * low, code * high);
      }
      for (std::size_t at = 0; at < values.size(); at += each) {
        std::vector<float> clamped(values.begin() + static_cast<std::ptrdiff_t>(at),
                                   values.begin() + static_cast<std::ptrdiff_t>(at + each));
        for (float& one : clamped) one = std::clamp(one, static_cast<float>(low), static_cast<float>(high));
        for (const double sum : c.sums(clamped.data(), m)) {
          found_most = std::max(found_most, sum);
          found_least = std::min(found_least, sum);
        }
      }
      CAPTURE(round);
      CAPTURE(m);
      CHECK(found_most >= most - 1e-6);
      CHECK(found_least <= least + 1e-6);
    }
  }
}

TEST_CASE("samples: ends and what lies between them, on the input's own steps") {
  graph::NodeBuilder net;
  net.graph.outputs = {net.node("Relu", {net.input("x", {1, 8})})};
  const Tensor samples =
      sample_inputs(graph::infer_shapes(net.graph), {{"x", {.low = -2, .high = 5, .step = 1}}}).at(0);
  std::vector<int> seen(8);
  for (const float value : samples.to_floats()) {
    REQUIRE(value == static_cast<float>(static_cast<int>(value)));
    REQUIRE(value >= -2);
    REQUIRE(value <= 5);
    ++seen[static_cast<std::size_t>(value + 2)];
  }
  for (const int count : seen) CHECK(count > 0);
}

}  // namespace
}  // namespace crumb::exporting
