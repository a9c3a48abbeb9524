// Samples that drive sums as far as they go, against convolutions written plainly.
#include "export/project/samples.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
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
  bool channels_last = false;
  std::vector<float> weight;  // [groups * out, in, kernel...]

  std::int64_t taps() const { return kernel[0] * kernel[1]; }
  std::int64_t windows(std::size_t axis) const {
    return (size[axis] + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel[axis] - 1) - 1) /
               strides[axis] +
           1;
  }

  /// The place in a sample, [groups * in, size...] or [size..., groups * in].
  std::int64_t place(std::int64_t channel, std::int64_t i, std::int64_t j) const {
    return channels_last ? (i * size[1] + j) * groups * in + channel : (channel * size[0] + i) * size[1] + j;
  }

  /// The weight as the node takes it: channels first, or behind the kernel.
  Tensor weights() const {
    if (!channels_last) return Tensor::floats({groups * out, in, kernel[0], kernel[1]}, weight);
    std::vector<float> moved;
    for (std::int64_t m = 0; m < groups * out; ++m) {
      for (std::int64_t tap = 0; tap < taps(); ++tap) {
        for (std::int64_t c = 0; c < in; ++c)
          moved.push_back(weight[static_cast<std::size_t>((m * in + c) * taps() + tap)]);
      }
    }
    return Tensor::floats({groups * out, kernel[0], kernel[1], in}, moved);
  }

  /// Of one sample x, at each window, for channel m.
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
                   static_cast<double>(x[place(m / out * in + c, i, j)]);
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
  for (int round = 0; round < 120; ++round) {
    Convolution c{.groups = draw(1, 3), .in = draw(1, 3), .out = draw(1, 2)};
    c.channels_last = round % 3 == 0;
    const bool is_plain = round % 5 == 0;
    if (is_plain) c.groups = 1;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      c.kernel.push_back(draw(1, 3));
      c.strides.push_back(is_plain && round % 2 == 0 ? 1 : draw(1, 3));
      c.dilations.push_back(is_plain ? 1 : draw(1, 2));
      c.size.push_back(c.dilations[axis] * (c.kernel[axis] - 1) + 1 + c.strides[axis] +
                       draw(0, 3));  // a window fits
    }
    for (int i = 0; i < 4; ++i) c.pads.push_back(is_plain ? 0 : draw(0, 1));
    for (std::int64_t i = 0; i < c.groups * c.out * c.in * c.taps(); ++i)
      c.weight.push_back(static_cast<float>(draw(-7, 7)));

    graph::NodeBuilder net;
    net.graph.opsets[std::string(graph::kChannelsLastDomain)] = 1;
    const std::string x = net.input("x", c.channels_last ? Ints{1, c.size[0], c.size[1], c.groups * c.in}
                                                         : Ints{1, c.groups * c.in, c.size[0], c.size[1]});
    const std::string taken = net.quant(x, Tensor::scalar(0.5F), 0, 4, round % 2 == 0);
    const std::string w = net.quant(net.constant("w", c.weights()), Tensor::scalar(1.0F), 0, 4);
    std::map<std::string, graph::Attribute> attributes{
        {"group", c.groups}, {"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}};
    if (c.groups == 1 && draw(0, 1) == 0) attributes.erase("group");
    if (c.strides == Ints{1, 1} && draw(0, 1) == 0) attributes.erase("strides");
    if (c.dilations == Ints{1, 1} && draw(0, 1) == 0) attributes.erase("dilations");
    if (c.pads == Ints(4, 0) && draw(0, 1) == 0) attributes.erase("pads");
    net.graph.outputs = {net.node("Conv", {taken, w}, attributes,
                                  c.channels_last ? graph::kChannelsLastDomain : graph::kOnnxDomain)};
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

/// The samples behind those that are drawn, of `each` elements.
std::vector<std::vector<float>> driven(const Tensor& samples, std::size_t each) {
  constexpr std::size_t kOthers = 64;
  const std::vector<float> values = samples.to_floats();
  CHECK(samples.shape()[0] == static_cast<std::int64_t>(values.size() / each));
  std::vector<std::vector<float>> made;
  for (std::size_t at = kOthers * each; at < values.size(); at += each)
    made.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(at),
                      values.begin() + static_cast<std::ptrdiff_t>(at + each));
  return made;
}

constexpr InputSpan kSpan{.low = -4, .high = 3.5, .step = 0.5, .is_quantized_first = true};

TEST_CASE("samples: a matrix's are one for each channel and way, through what moves, scales and quantizes") {
  graph::NodeBuilder net;
  const std::vector<float> codes{1, -2, 0, 3, -4, 5, 0, -1, 2, 7, -6, 0};  // [6, 2]
  std::string x = net.input("x", {1, 2, 3});
  x = net.node("Transpose", {x}, {{"perm", Ints{0, 2, 1}}});
  x = net.node("Reshape", {x, net.constant("flat", Tensor::ints({2}, Ints{1, 6}))});
  x = net.node("Mul", {x, net.constant("two", Tensor::scalar(2.0F))});
  x = net.quant(x, Tensor::scalar(1.0F), 0, 4);
  const std::string w =
      net.quant(net.constant("w", Tensor::floats({6, 2}, codes)), Tensor::scalar(1.0F), 0, 4);
  net.graph.outputs = {net.node("MatMul", {x, w})};
  const auto found = driven(sample_inputs(graph::infer_shapes(net.graph), {{"x", kSpan}}).at(0), 6);
  REQUIRE(found.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t row = 0; row < 2; ++row) {
      for (std::size_t column = 0; column < 3; ++column) {
        const float code = codes[(column * 2 + row) * 2 + i / 2] * (i % 2 == 0 ? 1.0F : -1.0F);
        CHECK(found[i][row * 3 + column] == (code > 0 ? 3.5F : code < 0 ? -4.0F : 0.0F));
      }
    }
  }
}

TEST_CASE("samples: none are driven where a layer does not take the input's elements one by one") {
  using S = std::string;
  const std::vector<std::pair<std::size_t, std::function<S(graph::NodeBuilder&, const S&, const S&)>>> all{
      {4,
       [](auto& n, const S& x, const S& w) {
         return n.node("MatMul", {x, w});
       }},
      // another tensor is added, or one number for each element; there are two rows; the weight is on the left
      {0,
       [](auto& n, const S& x, const S& w) {
         return n.node("MatMul", {n.node("Add", {x, x}), w});
       }},
      {0,
       [](auto& n, const S& x, const S& w) {
         const S c = n.constant("c", Tensor::floats({1, 2}, std::vector<float>{1, 2}));
         return n.node("MatMul", {n.node("Add", {x, n.quant(c, Tensor::scalar(0.5F), 0, 4)}), w});
       }},
      {0,
       [](auto& n, const S& x, const S& w) {
         return n.node("MatMul", {n.node("Concat", {x, x}, {{"axis", std::int64_t{0}}}), w});
       }},
      {0,
       [](auto& n, const S& x, const S& w) {
         return n.node("MatMul", {w, n.node("Transpose", {x}, {{"perm", Ints{1, 0}}})});
       }},
      {0,
       [](auto& n, const S& x, const S&) {
         return n.node("MatMul", {x, n.constant("f", Tensor::floats({2, 2}, std::vector<float>(4, 0.3F)))});
       }},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    graph::NodeBuilder net;
    const std::string x = net.quant(net.input("x", {1, 2}), Tensor::scalar(0.5F), 0, 4);
    const std::string w =
        net.quant(net.constant("w", Tensor::floats({2, 2}, std::vector<float>{1, 2, -3, 4})),
                  Tensor::scalar(1.0F), 0, 4);
    net.graph.outputs = {all[i].second(net, x, w)};
    CHECK(driven(sample_inputs(graph::infer_shapes(net.graph), {{"x", kSpan}}).at(0), 2).size() ==
          all[i].first);
  }
}

TEST_CASE("samples: a window that reaches into padding drives the terms that are inside") {
  graph::NodeBuilder net;
  const std::string x = net.quant(net.input("x", {1, 1, 2, 1}), Tensor::scalar(0.5F), 0, 4);
  const std::string w =
      net.quant(net.constant("w", Tensor::floats({1, 1, 3, 1}, std::vector<float>{5, -3, 7})),
                Tensor::scalar(1.0F), 0, 4);
  net.graph.outputs = {net.node("Conv", {x, w}, {{"pads", Ints{1, 0, 1, 0}}})};
  const auto found = driven(sample_inputs(graph::infer_shapes(net.graph), {{"x", kSpan}}).at(0), 2);
  REQUIRE(found.size() == 2);
  CHECK(found[0] == std::vector<float>{3.5F, -4});
  CHECK(found[1] == std::vector<float>{-4, 3.5F});
}

TEST_CASE("samples: what is quantized first is drawn somewhat beyond its range, and at both ends alike") {
  graph::NodeBuilder net;
  net.graph.outputs = {net.node("Relu", {net.input("x", {1, 500})})};
  for (const auto& [low, high] : {std::pair(-4.0, 3.5), std::pair(2.0, 10.0)}) {
    for (const bool is_given : {false, true}) {
      CAPTURE(is_given);
      const InputSpan span{.low = low, .high = high, .step = 0.5, .is_quantized_first = true};
      const analysis::GivenRanges given =
          is_given ? analysis::GivenRanges{{"x", {-8, 7}}} : analysis::GivenRanges{};
      const std::vector<float> values =
          sample_inputs(graph::infer_shapes(net.graph), {{"x", span}}, given).at(0).to_floats();
      const auto at = [&](std::size_t sample) {
        return values.begin() + static_cast<std::ptrdiff_t>(sample * 500);
      };
      const auto [least, most] = std::minmax_element(at(0), at(48));
      const double beyond = is_given ? 0 : (high - low) / 8;
      CHECK(*least == doctest::Approx(low - beyond).epsilon(0.01));
      CHECK(*most == doctest::Approx(high + beyond).epsilon(0.01));
      const auto lows = std::count(at(48), at(62), static_cast<float>(low)),
                 highs = std::count(at(48), at(62), static_cast<float>(high));
      CHECK(lows + highs == 14 * 500);
      CHECK(std::abs(lows - highs) < 400);  // five standard deviations
      CHECK(std::count(at(62), at(63), static_cast<float>(low)) == 500);
      CHECK(std::count(at(63), at(64), static_cast<float>(high)) == 500);
    }
  }
}

TEST_CASE("samples: of several inputs there are as many, and an input of unknown shape or span is named") {
  graph::NodeBuilder net;
  const std::string a = net.quant(net.input("a", {1, 2}), Tensor::scalar(0.5F), 0, 4),
                    b = net.quant(net.input("b", {1, 3}), Tensor::scalar(0.5F), 0, 4);
  const std::string w = net.quant(net.constant("w", Tensor::floats({2, 3}, std::vector<float>(6, 1))),
                                  Tensor::scalar(1.0F), 0, 4);
  net.graph.outputs = {net.node("Add", {net.node("MatMul", {a, w}), b})};
  graph::Graph graph = graph::infer_shapes(net.graph);
  const auto samples = sample_inputs(graph, {{"a", kSpan}, {"b", kSpan}});
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].shape() == Ints{64, 2});
  CHECK(samples[1].shape() == Ints{64, 3});
  CHECK_THROWS_WITH_AS(sample_inputs(graph, {{"a", kSpan}}), doctest::Contains("input 'b'"), Error);
  graph.values["a"].shape = graph::Shape{graph::Dim("n"), 2};
  CHECK_THROWS_WITH_AS(sample_inputs(graph, {{"a", kSpan}, {"b", kSpan}}), doctest::Contains("input 'a'"),
                       Error);
  graph.values.erase("a");
  CHECK_THROWS_WITH_AS(sample_inputs(graph, {{"a", kSpan}, {"b", kSpan}}), doctest::Contains("input 'a'"),
                       Error);
}

TEST_CASE("samples: given ones are followed by others of the same type and shape, and by no others") {
  const auto floats = [](const Ints& shape, float first) {
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).take()));
    std::iota(values.begin(), values.end(), first);
    return Tensor::floats(shape, values);
  };
  const Tensor both = followed_by(floats({2, 3}, 0), floats({1, 3}, 6));
  CHECK(both.shape() == Ints{3, 3});
  CHECK(both.to_floats() == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  for (const Tensor& wrong : {floats({2, 4}, 0), floats({3}, 0), floats({}, 0), floats({3, 1, 3}, 0),
                              Tensor::ints({2, 3}, Ints(6, 0))}) {
    CAPTURE(wrong.shape());
    CHECK_THROWS_WITH_AS(followed_by(wrong, floats({2, 3}, 0)), doctest::Contains("any number of samples"),
                         Error);
  }
  CHECK_THROWS_AS(followed_by(floats({}, 0), floats({}, 0)), Error);
  CHECK_THROWS_AS(followed_by(floats({2, 5, 3}, 0), floats({2, 4, 3}, 0)), Error);
}

TEST_CASE("samples: what a node of unknown shape makes, and what is behind it, is driven by none") {
  for (const bool is_known : {true, false}) {
    graph::NodeBuilder net;
    const std::string x = net.quant(net.input("x", {1, 2}), Tensor::scalar(0.5F), 0, 4);
    const std::string w =
        net.quant(net.constant("w", Tensor::floats({2, 2}, std::vector<float>{1, 2, -3, 4})),
                  Tensor::scalar(1.0F), 0, 4);
    const std::string moved = net.node("Reshape", {x, net.constant("to", Tensor::ints({2}, Ints{1, 2}))});
    net.graph.outputs = {net.node("MatMul", {moved, w})};
    graph::Graph graph = graph::infer_shapes(net.graph);
    CHECK(driven(sample_inputs(graph, {{"x", kSpan}}).at(0), 2).size() == 4);
    if (is_known) graph.values[moved].shape = graph::Shape{graph::Dim("n"), 2};
    if (!is_known) graph.values[moved].shape.reset();
    CHECK(driven(sample_inputs(graph, {{"x", kSpan}}).at(0), 2).empty());
    graph.values.erase(moved);
    CHECK(driven(sample_inputs(graph, {{"x", kSpan}}).at(0), 2).empty());
  }
}

TEST_CASE(
    "samples: of a layer of many channels the first 32 are driven; what has code 0 stays nearest to 0") {
  for (const std::int64_t channels : {31, 32, 33, 40}) {
    for (const auto& [low, high, still] :
         {std::tuple(-4.0, 3.5, 0.0F), {2.0, 3.5, 2.0F}, {-4.0, -1.0, -1.0F}}) {
      graph::NodeBuilder net;
      const std::string x = net.quant(net.input("x", {1, 3}), Tensor::scalar(0.5F), 0, 4);
      std::vector<float> codes(static_cast<std::size_t>(3 * channels), 0);  // [3, channels]
      for (std::int64_t c = 0; c < channels; ++c) {
        codes[static_cast<std::size_t>(c)] = 3;
        codes[static_cast<std::size_t>(2 * channels + c)] = -2;
      }
      const std::string w =
          net.quant(net.constant("w", Tensor::floats({3, channels}, codes)), Tensor::scalar(1.0F), 0, 4);
      net.graph.outputs = {net.node("MatMul", {x, w})};
      const InputSpan span{.low = low, .high = high, .step = 0.5, .is_quantized_first = true};
      const auto found = driven(sample_inputs(graph::infer_shapes(net.graph), {{"x", span}}).at(0), 3);
      REQUIRE(found.size() == static_cast<std::size_t>(2 * std::min<std::int64_t>(channels, 32)));
      for (std::size_t i = 0; i < found.size(); ++i) {
        const auto least = static_cast<float>(low), most = static_cast<float>(high);
        CHECK(found[i] == (i % 2 == 0 ? std::vector{most, still, least} : std::vector{least, still, most}));
      }
    }
  }
}

}  // namespace
}  // namespace crumb::exporting
