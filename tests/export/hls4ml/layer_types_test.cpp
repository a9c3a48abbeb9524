// The fixed-point types that hls4ml is told, of networks small enough to say them by hand.
#include "export/hls4ml/layer_types.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>

#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

namespace crumb::exporting::hls4ml {
namespace {

using crumb::testing::says;
using graph::Tensor;
using Ints = std::vector<std::int64_t>;

const LayerTypes* find_layer(const NetworkTypes& types, const std::string& node) {
  const auto found = std::ranges::find(types.layers, node, &LayerTypes::node);
  return found == types.layers.end() ? nullptr : &*found;
}

TEST_CASE("types: an input's quantizer, by sign, width, scale, rounding and saturation") {
  for (const bool is_signed : {true, false}) {
    for (const bool narrow : {false, true}) {
      for (const char* mode : {"ROUND", "FLOOR"}) {
        for (const int bits : {2, 4, 8}) {
          for (const int exponent : {-5, -1, 0, 3}) {
            graph::NodeBuilder net;
            const std::string q =
                net.quant(net.input("x", {1, 3}), graph::Tensor::scalar(std::ldexp(1.0F, exponent)), 0,
                          static_cast<float>(bits), is_signed, narrow);
            net.graph.nodes.back().attributes["rounding_mode"] = std::string(mode);
            net.graph.outputs = {q};
            const NetworkTypes types = types_of(graph::infer_shapes(net.graph));
            const std::string wanted = std::string(is_signed ? "ap_fixed<" : "ap_ufixed<") +
                                       std::to_string(bits) + "," + std::to_string(bits + exponent) +
                                       (std::string(mode) == "FLOOR" ? ",AP_TRN," : ",AP_RND_CONV,") +
                                       (narrow ? "AP_SAT_SYM>" : "AP_SAT>");
            CHECK(types.inputs.at("x") == wanted);
            CHECK(types.inexact.empty());
          }
        }
      }
    }
  }
}

/// What a value is after one operator with a constant: by trying every input.
TEST_CASE("types: results of elementwise operators hold every number that comes out, and end at one") {
  for (const char* op : {"Relu", "Add", "Sub", "Mul", "Max", "Min"}) {
    for (const double constant : {-100.0, -3.0, -0.5, 0.0, 0.25, 2.0, 100.0}) {
      const std::string name = op;
      if (name == "Relu" && constant != 0) continue;
      CAPTURE(name);
      CAPTURE(constant);
      graph::NodeBuilder net;
      const std::string q = net.quant(net.input("x", {1, 3}), graph::Tensor::scalar(0.5F), 0, 4);
      std::vector<std::string> inputs{q};
      if (name != "Relu")
        inputs.push_back(net.constant("c", graph::Tensor::scalar(static_cast<float>(constant))));
      const std::string made = net.node(op, inputs);
      const std::string last = net.node("Relu", {made});  // of what may be below 0 altogether
      net.graph.outputs = {last};
      const NetworkTypes types = types_of(graph::infer_shapes(net.graph));
      REQUIRE(types.inexact.empty());
      double low = 1e9, high = -1e9;
      for (int code = -8; code <= 7; ++code) {
        const double x = code * 0.5;
        const double y = name == "Relu"  ? std::max(x, 0.0)
                         : name == "Add" ? x + constant
                         : name == "Sub" ? x - constant
                         : name == "Mul" ? x * constant
                         : name == "Max" ? std::max(x, constant)
                                         : std::min(x, constant);
        low = std::min(low, y), high = std::max(high, y);
      }
      for (const LayerTypes& layer : types.layers) {
        if (!layer.result) continue;
        const bool is_last = layer.node == net.graph.nodes.back().name;
        CHECK(layer.result->low == (is_last ? std::max(low, 0.0) : low));
        CHECK(layer.result->high == (is_last ? std::max(high, 0.0) : high));
      }
    }
  }
}

TEST_CASE("types: a quantizer is signed and wide where it does not say else") {
  graph::NodeBuilder net;
  net.graph.outputs = {net.quant(net.input("x", {1, 3}), graph::Tensor::scalar(0.5F), 0, 4)};
  net.graph.nodes.back().attributes.clear();
  CHECK(types_of(graph::infer_shapes(net.graph)).inputs.at("x") == "ap_fixed<4,3,AP_RND_CONV,AP_SAT>");
}

/// Of halves from 6 to 13.5 and quarters from -2 to 1.75, what a Relu behind the operator makes.
TEST_CASE(
    "types: padding adds 0, and what joins or compares two holds the numbers of both, on the finer grid") {
  struct Case {
    const char* op;
    std::map<std::string, graph::Attribute> attributes;
    bool takes_two;
    int exponent;
    double low, high;
  };
  const std::vector<Case> all{
      {"Identity", {}, false, -1, 6, 13.5},
      {"Pad", {}, false, -1, 0, 13.5},
      {"Concat", {{"axis", std::int64_t{1}}}, true, -2, 0, 13.5},
      {"Max", {}, true, -2, 6, 13.5},
      {"Min", {}, true, -2, 0, 1.75},
      {"Add", {}, true, -2, 4, 15.25},
  };
  for (const Case& it : all) {
    for (const bool swapped : {false, true}) {
      CAPTURE(std::string(it.op));
      CAPTURE(swapped);
      graph::NodeBuilder net;
      const std::string halves =
          net.node("Add", {net.quant(net.input("x", {1, 4}), graph::Tensor::scalar(0.5F), 0, 4),
                           net.constant("ten", graph::Tensor::scalar(10.0F))});
      const std::string quarters = net.quant(net.input("y", {1, 4}), graph::Tensor::scalar(0.25F), 0, 4);
      std::vector<std::string> inputs{halves};
      if (it.takes_two) inputs.push_back(quarters);
      if (it.takes_two && swapped) std::swap(inputs[0], inputs[1]);
      if (it.op == std::string("Pad"))
        inputs.push_back(
            net.constant("pads", graph::Tensor::ints({4}, std::vector<std::int64_t>{0, 1, 0, 1})));
      net.graph.outputs = {net.node("Relu", {net.node(it.op, inputs, it.attributes)}), quarters};
      const NetworkTypes types = types_of(graph::infer_shapes(net.graph));
      CHECK(types.inexact.empty());
      const auto last = std::ranges::find(types.layers, net.graph.nodes.back().name, &LayerTypes::node);
      REQUIRE(last != types.layers.end());
      REQUIRE(last->result);
      CHECK(last->result->exponent == it.exponent);
      CHECK(last->result->low == it.low);
      CHECK(last->result->high == it.high);
    }
  }
}

/// Dense layers and convolutions of 1x1, with and without a bias, drawn; what their types are is worked out number by number.
TEST_CASE(
    "types: a layer's register, result, scale and bias, where scales are one, many, or no powers of two") {
  std::mt19937 engine(11);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(engine); };
  int one_by_one = 0, inexact = 0, with_add = 0;
  for (int round = 0; round < 600; ++round) {
    const auto terms = static_cast<std::size_t>(draw(1, 4)), channels = static_cast<std::size_t>(draw(1, 3));
    const bool is_conv = draw(0, 1) == 1, is_signed = draw(0, 1) == 1;
    const int x_exponent = draw(-3, 2);
    // Scales: one, one for each channel, or such a one that is no power of two.
    const int kind = draw(0, 3);
    std::vector<double> scales;
    std::vector<int> exponents;
    for (std::size_t c = 0; c < channels; ++c) {
      exponents.push_back(c > 0 && kind == 0 ? exponents[0] : draw(-4, 1));
      scales.push_back(std::ldexp(kind == 3 && c + 1 == channels ? 0.75 : 1.0, exponents.back()));
    }
    const bool are_alike = std::ranges::all_of(scales, [&](double scale) { return scale == scales[0]; });
    const bool are_powers = kind != 3;
    // Codes from -7 to 7; each channel has one that is not 0.
    std::vector<std::vector<int>> codes(channels, std::vector<int>(terms));
    for (auto& row : codes) {
      for (int& code : row) code = draw(-7, 7);
      row[0] = row[0] == 0 ? 3 : row[0];
    }
    // A bias: none, behind the layer, or the third input of a convolution.
    const int bias_kind = draw(0, is_conv ? 2 : 1);
    const bool is_one_number = bias_kind == 1 && draw(0, 2) == 0;
    const int bias_exponent = draw(-5, 3);
    std::vector<double> bias(channels, 0);
    if (bias_kind > 0) {
      for (double& one : bias)
        one = std::ldexp(2 * draw(-8, 8) + 1, bias_exponent);  // odd: its lowest bit is known
      if (is_one_number) std::ranges::fill(bias, bias[0]);
    }
    const int behind = draw(0, 2);  // nothing, a quantizer, or a Relu
    CAPTURE(round);
    CAPTURE(kind);
    CAPTURE(bias_kind);
    CAPTURE(behind);

    graph::NodeBuilder net;
    const auto sized = static_cast<std::int64_t>(terms), many = static_cast<std::int64_t>(channels);
    const std::string x = net.quant(net.input("x", is_conv ? Ints{1, sized, 2, 2} : Ints{1, sized}),
                                    Tensor::scalar(std::ldexp(1.0F, x_exponent)), 0, 4, is_signed);
    std::vector<float> weights;
    for (std::size_t i = 0; i < terms * channels; ++i) {
      const std::size_t c = is_conv ? i / terms : i % channels, term = is_conv ? i % terms : i / channels;
      weights.push_back(static_cast<float>(codes[c][term] * scales[c]));
    }
    const std::vector<float> narrow(scales.begin(), scales.end());
    const Tensor scale = kind == 0 && draw(0, 1) == 0
                             ? Tensor::scalar(narrow[0])
                             : Tensor::floats(is_conv ? Ints{many, 1, 1, 1} : Ints{1, many}, narrow);
    const std::string w = net.quant(
        net.constant("w", Tensor::floats(is_conv ? Ints{many, sized, 1, 1} : Ints{sized, many}, weights)),
        scale, 0, 4, true, true);
    const std::string weight_node = net.graph.nodes.back().name;
    const std::vector<float> bias_floats(bias.begin(), bias.begin() + (is_one_number ? 1 : many));
    std::vector<std::string> inputs{x, w};
    if (bias_kind == 2) inputs.push_back(net.constant("b", Tensor::floats({many}, bias_floats)));
    std::string y = net.node(is_conv ? "Conv" : "MatMul", inputs);
    const std::string layer_node = net.graph.nodes.back().name;
    std::string add_node;
    if (bias_kind == 1) {
      const Ints shape = is_one_number ? Ints{} : is_conv ? Ints{many, 1, 1} : Ints{many};
      const std::string b = net.constant("b", Tensor::floats(shape, bias_floats));
      y = net.node("Add", draw(0, 1) == 0 ? std::vector{y, b} : std::vector{b, y});
      add_node = net.graph.nodes.back().name;
      ++with_add;
    }
    if (behind == 1) y = net.quant(y, Tensor::scalar(0.5F), 0, 4);
    if (behind == 2) y = net.node("Relu", {y});
    net.graph.outputs = {y};
    const NetworkTypes types = types_of(graph::infer_shapes(net.graph));

    const int x_low = is_signed ? -8 : 0, x_high = is_signed ? 7 : 15;
    double code_low = 0, code_high = 0, low = 0, high = 0;
    int exponent = 100;
    for (std::size_t c = 0; c < channels; ++c) {
      double least = 0, most = 0;
      for (const int code : codes[c]) {
        least += std::min(code * x_low, code * x_high);
        most += std::max(code * x_low, code * x_high);
      }
      code_low = std::min(code_low, least), code_high = std::max(code_high, most);
      const double step = std::ldexp(1.0, exponents[c] + x_exponent);
      low = c == 0 ? least * step + bias[c] : std::min(low, least * step + bias[c]);
      high = c == 0 ? most * step + bias[c] : std::max(high, most * step + bias[c]);
      exponent = std::min({exponent, exponents[c] + x_exponent, bias_kind > 0 ? bias_exponent : 100});
    }
    const LayerTypes* layer = find_layer(types, layer_node);
    REQUIRE(layer != nullptr);
    REQUIRE(layer->accum);
    CHECK_FALSE(layer->scale);
    CHECK_FALSE(layer->bias);
    const FixedRange whole{exponent, low, high};
    if (are_powers && are_alike) {
      CHECK(types.inexact.empty());
      CHECK(*layer->accum == whole);
      // What only a quantizer or the layer's own Add takes has none.
      CHECK(layer->result.has_value() == (bias_kind != 1 && behind != 1));
      if (layer->result) CHECK(*layer->result == whole);
      CHECK(std::ranges::count(types.layers, add_node, &LayerTypes::node) == 0);
    } else {
      ++one_by_one;
      const int inside = x_exponent;  // codes alone are added up
      CHECK(layer->accum->low == std::ldexp(code_low, inside));
      CHECK(layer->accum->high == std::ldexp(code_high, inside));
      CHECK(layer->accum->exponent == inside);
      CHECK(layer->result == layer->accum);
      const LayerTypes* scaled = find_layer(types, bias_kind == 1 ? add_node : weight_node);
      if (!are_powers) {
        ++inexact;
        CHECK(scaled == nullptr);
        REQUIRE(types.inexact.size() == 1);
        CHECK(says(types.inexact[0], {layer_node.c_str(), "no power of two"}));
      } else {
        CHECK(types.inexact.empty());
        REQUIRE(scaled != nullptr);
        CHECK(scaled->result == whole);
        const auto [least, most] = std::ranges::minmax(scales);
        CHECK(scaled->scale == FixedRange{std::ranges::min(exponents), least, most});
        const auto [least_bias, most_bias] = std::ranges::minmax(bias);
        CHECK(scaled->bias == FixedRange{bias_kind > 0 ? bias_exponent : 0, least_bias, most_bias});
        CHECK_FALSE(scaled->accum);
      }
    }
    if (behind == 2 && are_powers) {
      const LayerTypes* relu = find_layer(types, net.graph.nodes.back().name);
      REQUIRE(relu != nullptr);
      CHECK(relu->result == FixedRange{exponent, std::max(low, 0.0), std::max(high, 0.0)});
    }
  }
  CHECK(one_by_one > 50);
  CHECK(inexact > 20);
  CHECK(with_add > 100);
}

/// Of a dense layer out of four signed bits and codes 3 and -2, what `finish` makes of it.
struct Dense : graph::NodeBuilder {
  std::string x, y;
  explicit Dense(float weight_zero = 0, float input_scale = 0.5F, float code = 3) {
    x = quant(input("x", {1, 2}), Tensor::scalar(input_scale), 0, 4);
    const std::string w = quant(constant("w", Tensor::floats({2, 1}, std::vector<float>{code, -2})),
                                Tensor::scalar(1.0F), weight_zero, 24);
    y = node("MatMul", {x, w});
  }
  NetworkTypes types() {
    if (graph.outputs.empty()) graph.outputs = {y};
    return types_of(graph::infer_shapes(graph));
  }
};

TEST_CASE(
    "types: an Add behind a layer is its bias only where nobody else takes the sum and one side is a "
    "constant") {
  const auto is_apart = [](const std::function<void(Dense&)>& finish) {
    Dense net;
    const std::string sum = net.y;
    finish(net);
    const NetworkTypes types = net.types();
    CHECK(types.inexact.empty());
    const LayerTypes* layer = find_layer(types, "MatMul2");
    REQUIRE(layer != nullptr);
    return layer->accum->high != 38;  // 3 * 7 / 2 + 2 * 8 / 2 is 18.5, and the constant
  };
  const auto number = [](Dense& net) { return net.constant("n", Tensor::scalar(19.5F)); };
  CHECK_FALSE(is_apart([&](Dense& net) { net.y = net.node("Add", {net.y, number(net)}); }));
  CHECK_FALSE(is_apart([&](Dense& net) { net.y = net.node("Add", {number(net), net.y}); }));
  CHECK(is_apart([&](Dense& net) { net.graph.outputs = {net.node("Add", {net.y, number(net)}), net.y}; }));
  CHECK(is_apart([&](Dense& net) {
    net.graph.outputs = {net.node("Add", {net.y, number(net)}), net.node("Relu", {net.y})};
  }));
  CHECK(is_apart([&](Dense& net) { net.y = net.node("Add", {net.y, net.x}); }));
  CHECK(is_apart([&](Dense& net) { net.y = net.node("Add", {net.y, net.y}); }));
  CHECK(is_apart([&](Dense& net) { net.y = net.node("Sub", {net.y, number(net)}); }));
}

TEST_CASE("types: layers that hls4ml would compute otherwise, and why") {
  const auto said = [](Dense net) {
    const NetworkTypes types = net.types();
    return types.inexact.empty() ? std::string() : types.inexact[0];
  };
  CHECK(said(Dense()) == "");
  CHECK(says(said(Dense(1)), {"Quant", "the zero point of a weight is not 0"}));
  // 2^21 * 8 is 24 bits, and twice that is one too many.
  CHECK(said(Dense(0, 1, 0x1p20F)) == "");
  CHECK(says(said(Dense(0, 1, 0x1p22F)), {"MatMul", "more than float32's 24 bits", "ap_fixed<27,27>"}));
  Dense several;
  several.y = several.node(
      "Add", {several.y, several.constant("n", Tensor::floats({1, 3}, std::vector<float>{1, 2, 3}))});
  CHECK(says(said(several), {"Add", "its bias is not one finite number for each channel"}));
  Dense endless;
  endless.y = endless.node("Add", {endless.y, endless.constant("n", Tensor::scalar(HUGE_VALF))});
  CHECK(says(said(endless), {"Add", "its bias is not one finite number for each channel"}));
  graph::NodeBuilder bits;
  const std::string x = bits.quant(bits.input("x", {1, 2}), Tensor::scalar(0.5F), 0, 4);
  const std::string w = bits.node("BipolarQuant",
                                  {bits.constant("w", Tensor::floats({2, 1}, std::vector<float>{1, -1})),
                                   bits.constant("one", Tensor::scalar(1.0F))},
                                  {}, graph::kQonnxDomain);
  bits.graph.outputs = {bits.node("MatMul", {x, w})};
  const NetworkTypes types = types_of(graph::infer_shapes(bits.graph));
  REQUIRE(types.inexact.size() == 1);
  CHECK(says(types.inexact[0], {"BipolarQuant", "weights of one bit"}));
}

TEST_CASE("types: what is not known is said once, where it begins") {
  Dense net;
  net.y = net.node("Relu", {net.node("Exp", {net.y})});
  const NetworkTypes types = net.types();
  REQUIRE(types.inexact.size() == 1);
  CHECK(says(types.inexact[0], {"Exp", "in other numbers than ONNX"}));
  for (const char* mode : {"nearest", "linear"}) {
    graph::NodeBuilder image;
    const std::string x = image.quant(image.input("x", {1, 1, 2, 2}), Tensor::scalar(0.5F), 0, 4);
    const std::string scales = image.constant("scales", Tensor::floats({4}, std::vector<float>{1, 1, 2, 2}));
    image.graph.outputs = {
        image.node("Relu", {image.node("Resize", {x, "", scales}, {{"mode", std::string(mode)}})})};
    const NetworkTypes of_image = types_of(graph::infer_shapes(image.graph));
    CHECK(of_image.inexact.empty() == (std::string(mode) == "nearest"));
    if (of_image.inexact.empty()) CHECK(find_layer(of_image, "Relu2")->result == FixedRange{-1, 0, 3.5});
  }
}

TEST_CASE("types: constants that add, take away and multiply are types of their own: x * scale + bias") {
  struct Case {
    const char* op;
    bool first;  // the constant
    FixedRange scale, bias;
  };
  const FixedRange zero{}, one{0, 1, 1}, numbers{-2, -0.75, 2.5}, opposite{-2, -2.5, 0.75};
  for (const Case& it : {Case{"Add", false, one, numbers}, Case{"Add", true, one, numbers},
                         Case{"Sub", false, one, opposite}, Case{"Sub", true, {0, -1, -1}, numbers},
                         Case{"Mul", false, numbers, zero}, Case{"Mul", true, numbers, zero}}) {
    for (const bool is_quantized_behind : {false, true}) {
      CAPTURE(std::string(it.op));
      CAPTURE(it.first);
      graph::NodeBuilder net;
      const std::string x = net.quant(net.input("x", {1, 3}), Tensor::scalar(0.5F), 0, 4);
      const std::string n = net.constant("n", Tensor::floats({3}, std::vector<float>{-0.75F, 2.5F, 1}));
      std::string y = net.node(it.op, it.first ? std::vector{n, x} : std::vector{x, n});
      const std::string name = net.graph.nodes.back().name;
      if (is_quantized_behind) y = net.quant(y, Tensor::scalar(0.5F), 0, 4);
      net.graph.outputs = {y};
      const NetworkTypes types = types_of(graph::infer_shapes(net.graph));
      const LayerTypes* layer = find_layer(types, name);
      REQUIRE(layer != nullptr);
      CHECK(layer->scale == it.scale);
      CHECK(layer->bias == it.bias);
      double low = 1e9, high = -1e9;
      for (int code = -8; code <= 7; ++code) {
        for (const double number : {-0.75, 2.5, 1.0}) {
          const double value = code * 0.5, a = it.first ? number : value, b = it.first ? value : number;
          const double made = *it.op == 'A' ? a + b : *it.op == 'S' ? a - b : a * b;
          low = std::min(low, made), high = std::max(high, made);
        }
      }
      REQUIRE(layer->result);
      CHECK(layer->result->low == low);
      CHECK(layer->result->high == high);
    }
  }
  // Two that are computed: a type where no quantizer takes the result at once.
  for (const bool is_quantized_behind : {false, true}) {
    graph::NodeBuilder net;
    const std::string x = net.quant(net.input("x", {1, 3}), Tensor::scalar(0.5F), 0, 4);
    std::string y = net.node("Mul", {x, x});
    if (is_quantized_behind) y = net.quant(y, Tensor::scalar(0.5F), 0, 4);
    net.graph.outputs = {y};
    const NetworkTypes types = types_of(graph::infer_shapes(net.graph));
    const LayerTypes* layer = find_layer(types, "Mul1");
    CHECK((layer == nullptr) == is_quantized_behind);
    if (layer != nullptr) {
      CHECK(layer->result == FixedRange{-2, -14, 16});
      CHECK_FALSE(layer->scale);
      CHECK_FALSE(layer->bias);
    }
  }
}

}  // namespace
}  // namespace crumb::exporting::hls4ml
