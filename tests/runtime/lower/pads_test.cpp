// Pads around quantizers and convolutions: integers must give the bits of floats, which are exact because
// scales are powers of two.
#include "runtime/lower/pads.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "runtime/lower/lower.h"
#include "runtime/model.h"
#include "tests/graph/node_builder.h"

namespace crumb::runtime {
namespace {

using graph::ElementType;
using graph::NodeBuilder;
using graph::Tensor;
using Sizes = std::vector<std::int64_t>;

struct PadDraws {
  std::mt19937_64 engine;

  std::int64_t from(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return from(1, n) == 1; }
  float quarters() { return static_cast<float>(from(-32, 32)) / 4; }
  Tensor numbers(const Sizes& shape) {
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).value()));
    for (float& v : values) v = quarters();
    return Tensor::floats(shape, values);
  }
};

/// Quantizers, Pads, pools of maxima and convolutions in any order, with the shapes of their values.
struct PaddedNetwork {
  NodeBuilder builder;
  PadDraws& draw;
  Sizes input, shape;  ///< the network's input, the last value
  std::string last;
  std::size_t axes, count = 0;

  explicit PaddedNetwork(PadDraws& draws) : draw(draws), axes(static_cast<std::size_t>(draws.from(1, 2))) {
    builder.graph.opsets[""] = 18;
    shape = {draw.from(1, 2), draw.from(1, 5)};
    for (std::size_t i = 0; i < axes; ++i) shape.push_back(draw.from(4, 8));
    input = shape;
    last = builder.input("x", shape);
    for (std::int64_t layer = draw.from(1, 3); layer > 0; --layer) {
      if (draw.one_in(3)) pad();
      if (draw.one_in(5)) quantize();
      if (draw.one_in(5)) pad();
      quantize();
      while (draw.one_in(2)) pad();
      if (draw.one_in(6)) pool();
      convolve();
      if (draw.one_in(2)) last = builder.node("Relu", {last});
    }
    if (draw.one_in(2)) pad();
    if (draw.one_in(2)) quantize();
    builder.graph.outputs = {last};
    for (graph::Node& node : builder.graph.nodes) {
      if (node.domain.empty()) node.version = 18;
    }
  }

  std::string constant(const Tensor& tensor) {
    return builder.constant("c" + std::to_string(count++), tensor);
  }
  std::string maybe_computed(std::string name, std::int64_t n) {
    return draw.one_in(n) ? builder.node("Identity", {name}) : name;
  }
  void know_shape() {
    builder.graph.values[last] = {.type = ElementType::kFloat,
                                  .shape = graph::Shape(shape.begin(), shape.end())};
  }

  void quantize() {
    const auto scale = Tensor::scalar(std::ldexp(1.0F, static_cast<int>(draw.from(-3, 0))));
    const bool is_signed = draw.one_in(2);
    const std::int64_t zero = draw.one_in(2) ? 0 : is_signed ? draw.from(-5, 5) : draw.from(0, 90);
    if (draw.one_in(10)) {
      last = builder.node("BipolarQuant", {last, constant(scale)}, {}, graph::kQonnxDomain);
    } else if (draw.one_in(2)) {
      last = builder.quant(last, scale, static_cast<float>(zero), static_cast<float>(draw.from(3, 8)),
                           is_signed, draw.one_in(2));
    } else {
      const std::array<std::byte, 1> code{static_cast<std::byte>(zero)};
      const std::string s = constant(scale),
                        z = constant({is_signed ? ElementType::kInt8 : ElementType::kUint8, {}, {code[0]}});
      std::string codes = builder.node("QuantizeLinear", {last, s, z});
      builder.graph.values[codes].type = is_signed ? ElementType::kInt8 : ElementType::kUint8;
      if (draw.one_in(2)) {
        const auto limit = [&](std::int64_t to) {
          const std::array<std::byte, 1> bytes{static_cast<std::byte>(to)};
          return constant({is_signed ? ElementType::kInt8 : ElementType::kUint8, {}, {bytes[0]}});
        };
        codes = builder.node("Clip", {codes, limit(is_signed ? draw.from(-20, 0) : draw.from(0, 5)),
                                      draw.one_in(4) ? "" : limit(draw.from(20, 100))});
        builder.graph.values[codes].type = is_signed ? ElementType::kInt8 : ElementType::kUint8;
      }
      last = builder.node("DequantizeLinear", {codes, s, z});
    }
    know_shape();
  }

  /// Of any axes, both signs, every mode, in the old form (attributes) and the new one.
  void pad() {
    const auto rank = static_cast<std::int64_t>(shape.size());
    const bool spatial = !draw.one_in(5), crops = draw.one_in(4);
    const char* mode = draw.one_in(3) ? std::array{"edge", "reflect", "wrap"}[draw.from(0, 2)] : "constant";
    Sizes pads(static_cast<std::size_t>(2 * rank), 0);
    for (std::int64_t i = spatial ? 2 : 0; i < rank; ++i) {
      pads[i] = draw.from(crops ? -1 : 0, 3);
      pads[rank + i] = draw.from(crops ? -1 : 0, 3);
      if (shape[i] + pads[i] + pads[rank + i] < 1) pads[i] = pads[rank + i] = 0;
      shape[i] += pads[i] + pads[rank + i];
    }
    std::map<std::string, graph::Attribute> attributes{{"mode", std::string(mode)}};
    const float fill = !draw.one_in(3) ? 0.0F : draw.one_in(2) ? draw.quarters() : 0.3F;
    if (draw.one_in(5)) {
      attributes["pads"] = pads;
      attributes["value"] = fill;
      last = builder.node("Pad", {last}, attributes);
      return know_shape();
    }
    std::vector<std::string> inputs{last, ""};
    if (draw.one_in(4)) {
      Sizes order, listed, behind;
      for (std::int64_t i = rank; i-- > 0;) {
        order.push_back(draw.one_in(2) ? i : i - rank);
        listed.push_back(pads[i]);
        behind.push_back(pads[rank + i]);
      }
      listed.insert(listed.end(), behind.begin(), behind.end());
      inputs[1] = maybe_computed(constant(Tensor::ints({2 * rank}, listed)), 9);
      inputs.push_back(fill != 0 || draw.one_in(2) ? maybe_computed(constant(Tensor::scalar(fill)), 9) : "");
      inputs.push_back(constant(Tensor::ints({rank}, order)));
    } else {
      inputs[1] = maybe_computed(constant(Tensor::ints({2 * rank}, pads)), 9);
      if (fill != 0 || draw.one_in(2)) inputs.push_back(maybe_computed(constant(Tensor::scalar(fill)), 9));
    }
    last = builder.node("Pad", inputs, attributes);
    know_shape();
  }

  void pool() {
    last = builder.node("MaxPool", {last}, {{"kernel_shape", Sizes(axes, 2)}, {"pads", Sizes(2 * axes, 1)}});
    for (std::size_t i = 0; i < axes; ++i) ++shape[2 + i];
    know_shape();
  }

  void convolve() {
    const std::int64_t groups = draw.one_in(3) ? shape[1] : 1, outputs = groups * draw.from(1, 3);
    const std::string automatic = std::array{"", "NOTSET", "VALID", "SAME_UPPER"}[draw.from(0, 3)];
    Sizes kernel{outputs, shape[1] / groups}, strides, own(2 * axes, 0);
    shape[1] = outputs;
    for (std::size_t i = 0; i < axes; ++i) {
      const bool is_padded = automatic.empty() || automatic == "NOTSET";
      std::int64_t& size = shape[2 + i];
      strides.push_back(draw.from(1, 2));
      if (is_padded) own[i] = draw.from(0, 2), own[axes + i] = draw.from(0, 2);
      const std::int64_t all = size + own[i] + own[axes + i];
      kernel.push_back(draw.from(1, std::min<std::int64_t>(3, automatic == "SAME_UPPER" ? 3 : all)));
      size = automatic == "SAME_UPPER" ? (size + strides[i] - 1) / strides[i]
                                       : (all - kernel.back()) / strides[i] + 1;
    }
    const std::string name = "w" + std::to_string(count++);
    builder.graph.quantized[name] = graph::quantize_constant(
        QuantSpec::parse(draw.one_in(3) ? "int8:channel:scale=e8m0" : "int4:channel:scale=e8m0"),
        draw.numbers(kernel), 0, name, 1);
    builder.graph.values[name] = {.type = ElementType::kFloat,
                                  .shape = graph::Shape(kernel.begin(), kernel.end())};
    std::map<std::string, graph::Attribute> attributes{{"strides", strides}, {"group", groups}};
    if (!automatic.empty()) attributes["auto_pad"] = automatic;
    if (automatic.empty() || automatic == "NOTSET") attributes["pads"] = own;
    last = builder.node("Conv", {last, name}, attributes);
    know_shape();
  }
};

std::size_t pads_of(const graph::Graph& graph) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.nodes, [](const graph::Node& node) { return node.is("Pad"); }));
}

TEST_CASE("pads of codes and of convolutions give the bits of pads of floats") {
  PadDraws draw{std::mt19937_64(20261129)};
  std::size_t layers = 0, integers = 0, pads = 0, left = 0, on_codes = 0, numbers = 0;
  for (int round = 0; round < 4000; ++round) {
    const PaddedNetwork drawn(draw);
    const graph::Graph& network = drawn.builder.graph;
    const Lowered lowered = lower(network);
    layers += network.quantized.size();
    integers += lowered.integers.size();
    pads += pads_of(network);
    left += pads_of(lowered.graph);
    for (const graph::Node& node : lowered.graph.nodes) {
      const graph::Value* from = lowered.graph.find(node.inputs[0]);
      on_codes += node.is("Pad") && from && from->type != ElementType::kFloat ? 1 : 0;
    }
    const Array x = Array::of(draw.numbers(drawn.input));
    const std::vector<Array> exact = Model(network, Computes::kFloats).run({x}, {.threads = 1}),
                             found = Model(network).run({x}, {.threads = 1});
    REQUIRE(found[0].shape() == drawn.shape);
    REQUIRE(exact[0].shape() == drawn.shape);
    const auto a = found[0].values<float>(), b = exact[0].values<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) FAIL(round << ": " << a[i] << " is not " << b[i]);
    }
    numbers += a.size();
  }
  // What stays in floats are convolutions behind constants without a code, or behind computed ones.
  CHECK(integers > layers * 3 / 4);
  CHECK(pads - left > 700);  // those of zeros in front of a convolution that states its padding
  CHECK(on_codes > 1000);
  CHECK(numbers > 300'000);
}

/// A quantizer, a Pad of one on each side of two spatial axes, and a convolution without padding.
graph::Graph padded_convolution(const std::string& mode, float fill, bool pads_first, bool is_output) {
  NodeBuilder builder;
  std::string x = builder.input("x", {1, 2, 5, 5});
  const auto pad = [&] {
    x = builder.node("Pad",
                     {x, builder.constant("pads", Tensor::ints({8}, Sizes{0, 0, 1, 2, 0, 0, 3, 0})),
                      builder.constant("fill", Tensor::scalar(fill))},
                     {{"mode", mode}});
  };
  if (pads_first) pad();
  const std::string padded = x;
  x = builder.quant(x, Tensor::scalar(0.25F), 3, 8, false);
  if (!pads_first) pad();
  std::vector<float> weights(3 * 2 * 3 * 3);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) - 3;
  builder.graph.quantized["w"] = graph::quantize_constant(QuantSpec::parse("int4:channel:scale=e8m0"),
                                                          Tensor::floats({3, 2, 3, 3}, weights), 0, "w", 1);
  const std::string y = builder.node("Conv", {x, "w"}, {{"pads", Sizes{1, 0, 0, 1}}});
  builder.graph.outputs = {y};
  if (is_output) builder.graph.outputs.push_back(pads_first ? padded : x);
  return builder.graph;
}

TEST_CASE("a convolution adds the zeros of the Pad before it, in front of or behind the quantizer") {
  for (const bool pads_first : {false, true}) {
    const Lowered lowered = lower(padded_convolution("constant", 0, pads_first, false));
    CHECK(pads_of(lowered.graph) == 0);
    REQUIRE(lowered.integers.size() == 1);
    const auto& conv = *std::ranges::find_if(
        lowered.graph.nodes, [](const graph::Node& node) { return node.is("Conv", "crumb.runtime"); });
    CHECK(conv.ints_or("pads", {}) == Sizes{2, 2, 3, 1});
    CHECK(lowered.graph.nodes.size() == 2);  // the codes, the convolution
  }
}

TEST_CASE("a Pad stays where others take its output, where it repeats, and where its constant is no zero") {
  CHECK(pads_of(lower(padded_convolution("constant", 0, false, true)).graph) == 1);
  CHECK(pads_of(lower(padded_convolution("constant", 0, true, true)).graph) == 1);
  for (const char* mode : {"reflect", "edge"}) {
    for (const bool pads_first : {false, true}) {
      const Lowered lowered = lower(padded_convolution(mode, 0, pads_first, false));
      CHECK(pads_of(lowered.graph) == 1);
      CHECK(lowered.integers.size() == 1);
      CHECK(lowered.graph.nodes[0].op == "Codes");  // before the Pad, which moves bytes
    }
  }
  CHECK(lower(padded_convolution("constant", 0.5F, false, false)).integers.size() == 1);  // it has a code
  CHECK(lower(padded_convolution("constant", 0.3F, false, false)).integers.empty());
  CHECK(lower(padded_convolution("constant", -1.0F, false, false)).integers.empty());  // below the least code
}

TEST_CASE("what a Pad of codes adds is one code or none") {
  const UniformQuantizer bytes{.scale = 0.1F, .zero = 7, .low = 0, .high = 255};
  for (std::int32_t code = 0; code <= 255; ++code) {
    const float value = static_cast<float>(code - 7) * 0.1F;
    CHECK(exact_code(bytes, value) == code);
    CHECK_FALSE(exact_code(bytes, std::nextafter(value, 1000.0F)));
  }
  CHECK_FALSE(exact_code(bytes, -0.8F));
  CHECK_FALSE(exact_code(bytes, std::numeric_limits<double>::infinity()));
  CHECK_FALSE(exact_code(bytes, std::nan("")));
  const UniformQuantizer signs{.scale = 0.5, .low = -1, .high = 1, .bipolar = true};
  CHECK(exact_code(signs, -0.5) == -1);
  CHECK_FALSE(exact_code(signs, 0));
}

TEST_CASE("NaN stays NaN through a quantizer and a Pad whose codes nothing takes") {
  NodeBuilder builder;
  std::string x = builder.quant(builder.input("x", {1, 4}), Tensor::scalar(0.5F), 1, 8);
  builder.graph.outputs = {
      builder.node("Pad", {x, builder.constant("pads", Tensor::ints({4}, Sizes{0, 1, 0, 2})),
                           builder.constant("fill", Tensor::scalar(1.5F))})};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array in = Array::of(Tensor::floats({1, 4}, std::array{nan, 1.0F, -2.2F, nan}));
  const Array made = Model(builder.graph).run({in}, {})[0];
  const auto found = made.values<float>();
  const std::array expected{1.5F, nan, 1.0F, -2.0F, nan, 1.5F, 1.5F};
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK((std::isnan(expected[i]) ? std::isnan(found[i]) : found[i] == expected[i]));
}

}  // namespace
}  // namespace crumb::runtime
