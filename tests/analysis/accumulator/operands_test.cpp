// What operands and weights are that few networks have: bits, minifloats of no format of ours, scales of tokens; and which
// products are simulated.
#include "analysis/accumulator/operands.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

#include "analysis/accumulator/simulate.h"
#include "tests/analysis/accumulator/networks.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

namespace crumb::analysis {
namespace {

using testing::says;
using Ints = std::vector<std::int64_t>;

AccumulatorRow only_row(Net& net) {
  const AccumulatorReport report = check_accumulators(graph::infer_shapes(net.graph));
  REQUIRE(report.layers.size() == 1);
  return report.layers[0];
}

TEST_CASE("the hull of ranges holds each of them") {
  CHECK(OperandRange{.cases = {{-3, 5}, {-7, 2}}}.hull() == IntegerRange{-7, 5});
  CHECK(OperandRange{.cases = {{-7, 2}, {-3, 5}, {-4, 9}}}.hull() == IntegerRange{-7, 9});
  CHECK(OperandRange{.cases = {{1, 2}}}.hull() == IntegerRange{1, 2});
}

TEST_CASE("bits that are alike count one each: sums from none to all") {
  for (const std::int64_t terms : {1, 3, 4, 9}) {
    CAPTURE(terms);
    Net net;
    Ints bits(static_cast<std::size_t>(terms * 3));
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = (i * 7 / 2) % 2;
    net.input("x", {2, terms});
    net.graph.values["x"].annotations = {{"finn_datatype", "BINARY"}};
    net.graph.outputs = {net.node("XnorPopcountMatMul",
                                  {"x", net.constant("bits", graph::Tensor::ints({terms, 3}, bits))}, {},
                                  graph::kQonnxDomain)};
    const AccumulatorRow row = only_row(net);
    CHECK(row.reason == "");
    CHECK(row.input == IntegerRange{0, 1});
    CHECK(row.worst == WorstSums{terms, 0});
  }
}

TEST_CASE("weights of a FloatQuant that is no format of ours count in its smallest subnormal") {
  // Three exponent bits, one mantissa bit, bias 2: subnormal 2^(1 - 2 - 1) = 1/4.
  const float scale = 0.5F;
  const std::vector<float> levels{0.25F, 0.5F, -0.75F, 1.5F, -6, 0};
  std::vector<float> values;
  for (const float level : levels) values.push_back(level * scale);
  Net net;
  std::vector<std::string> inputs{net.constant("w", graph::Tensor::floats({3, 2}, values))};
  int number = 0;
  for (const float parameter : {scale, 3.0F, 1.0F, 2.0F, 12.0F})
    inputs.push_back(net.constant("p" + std::to_string(number++), graph::Tensor::scalar(parameter)));
  const std::string w = net.node("FloatQuant", inputs,
                                 {{"has_inf", std::int64_t{0}},
                                  {"has_nan", std::int64_t{0}},
                                  {"saturation", std::int64_t{1}},
                                  {"rounding_mode", std::string("ROUND")}},
                                 graph::kQonnxDomain);
  const std::string x =
      net.quant(net.input("x", {4, 3}), graph::Tensor::scalar(1.0F), 0, 2, false);  // 0 to 3
  net.graph.outputs = {net.node("MatMul", {x, w})};
  const AccumulatorRow row = only_row(net);
  CHECK(row.reason == "");
  // Columns in quarters: {1, -3, -24} and {2, 6, 0}.
  CHECK(row.worst == WorstSums{3 * (2 + 6), -3 * (3 + 24)});
}

TEST_CASE(
    "a computed scale counts where it is one for each token, and not where it differs among the terms of a "
    "sum") {
  for (const bool by_token : {true, false}) {
    CAPTURE(by_token);
    Net net;
    net.input("x", {4, 3});
    const std::string scale =
        net.node("ReduceMax", {"x"}, {{"axes", Ints{by_token ? 1 : 0}}, {"keepdims", std::int64_t{1}}});
    const std::string x = net.node(
        "Quant",
        {"x", scale, net.constant("zero", graph::Tensor::scalar(0.0F)),
         net.constant("bits", graph::Tensor::scalar(4.0F))},
        {{"signed", std::int64_t{1}}, {"narrow", std::int64_t{0}}, {"rounding_mode", std::string("ROUND")}},
        graph::kQonnxDomain);
    net.graph.outputs = {net.node("MatMul", {x, net.weight({3, 2}, 0.5F)})};
    const AccumulatorRow row = only_row(net);
    CHECK(row.bits_needed.has_value() == by_token);
    if (by_token) CHECK(row.input == IntegerRange{-8, 7});
  }
}

TEST_CASE("each product of a node is of its own weight: one that is float is no row") {
  const std::vector<std::tuple<const char*, std::int64_t>> cells{{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}};
  for (const auto& [op, gates] : cells) {
    const std::string name = op;
    CAPTURE(name);
    for (const bool is_float : {false, true}) {
      CAPTURE(is_float);
      Net net;
      const std::string x = net.quant(net.input("x", {5, 1, 3}), graph::Tensor::scalar(0.5F), 0, 3);
      const Ints shape{1, 2 * gates, 2};
      const std::vector<float> values(static_cast<std::size_t>(4 * gates), 0.3F);
      const std::string r =
          is_float ? net.constant("r", graph::Tensor::floats(shape, values)) : net.weight(shape, 0.5F);
      net.graph.outputs = {
          net.node(op, {x, net.weight({1, 2 * gates, 3}, 0.5F), r}, {{"hidden_size", std::int64_t{2}}})};
      const AccumulatorReport report = check_accumulators(graph::infer_shapes(net.graph));
      CHECK(report.float_layers == (is_float ? 1 : 0));
      REQUIRE(report.layers.size() == (is_float ? 1 : 2));
      CHECK(report.layers[0].operands == "X W");
      if (!is_float) CHECK(says(report.layers[1].reason, {"hidden state"}));
    }
  }
}

TEST_CASE("so many factors and reshapes behind each other fold into a weight, and no more") {
  for (const bool reshapes : {false, true}) {
    for (const int steps : {7, 8, 9}) {
      CAPTURE(reshapes);
      CAPTURE(steps);
      Net net;
      const std::string x = net.quant(net.input("x", {4, 3}), graph::Tensor::scalar(0.5F), 0, 3);
      const std::string two = net.constant("two", graph::Tensor::scalar(2.0F));
      const std::string shape = net.constant("shape", graph::Tensor::ints({2}, Ints{3, 2}));
      std::string w = net.node("Mul", {net.weight({3, 2}, 0.5F), two});
      for (int i = 1; i < steps; ++i)
        w = reshapes ? net.node("Reshape", {w, shape}) : net.node("Mul", {w, two});
      net.graph.outputs = {net.node("MatMul", {x, w})};
      const AccumulatorReport report = check_accumulators(graph::infer_shapes(net.graph));
      CHECK(report.float_layers == (steps <= 8 ? 0 : 1));
    }
  }
}

TEST_CASE("of channels that go equally far the first is named") {
  Net net;
  const std::string x = net.quant(net.input("x", {4, 3}), graph::Tensor::scalar(0.5F), 0, 3);
  const std::string codes =
      net.constant("codes", graph::Tensor::floats({3, 3}, std::vector<float>{0, 3, 3, 0, -2, -2, 0, 1, 1}));
  net.graph.outputs = {net.node("MatMul", {x, net.quant(codes, graph::Tensor::scalar(1.0F), 0, 4)})};
  const auto failures =
      check_accumulators(graph::infer_shapes(net.graph), {.ranges = {}, .bits = 3}).failures;
  REQUIRE(failures.size() == 1);
  CHECK(says(failures[0], {"channel 1:"}));
}

TEST_CASE("a failure names the tile where there are tiles, be it one") {
  for (const std::size_t terms : {1u, 2u, 4u}) {
    Net net;
    const std::string x =
        net.quant(net.input("x", {4, static_cast<std::int64_t>(terms)}), graph::Tensor::scalar(0.5F), 0, 3);
    const std::string codes = net.constant(
        "codes", graph::Tensor::floats({static_cast<std::int64_t>(terms), 1}, std::vector<float>(terms, 3)));
    net.graph.outputs = {net.node("MatMul", {x, net.quant(codes, graph::Tensor::scalar(1.0F), 0, 4)})};
    graph::Graph graph = graph::infer_shapes(net.graph);
    const auto whole = check_accumulators(graph, {.ranges = {}, .bits = 2}).failures;
    REQUIRE(whole.size() == 1);
    CHECK(whole[0].find("tile") == std::string::npos);
    for (const std::size_t tile : {1u, 2u}) {
      graph::Graph tiled = with_certificates(graph, {{graph.nodes.back().name, {.bits = 16, .tile = tile}}});
      const auto failures = check_accumulators(tiled, {.ranges = {}, .bits = 2}).failures;
      REQUIRE(failures.size() == 1);
      CHECK(says(failures[0], {"channel 0, tile 0:"}));
    }
  }
}

TEST_CASE(
    "a computed scale for each token counts in a product of two computed operands, unless it is turned") {
  for (const bool turned : {false, true}) {
    CAPTURE(turned);
    Net net;
    net.input("x", {3, 3});
    const std::string scale =
        net.node("ReduceMax", {"x"}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}});
    const std::string a = net.node(
        "Quant",
        {"x", scale, net.constant("zero", graph::Tensor::scalar(0.0F)),
         net.constant("bits", graph::Tensor::scalar(4.0F))},
        {{"signed", std::int64_t{1}}, {"narrow", std::int64_t{0}}, {"rounding_mode", std::string("ROUND")}},
        graph::kQonnxDomain);
    const std::string b = net.quant(net.input("b", {3, 2}), graph::Tensor::scalar(0.5F), 0, 3);
    net.graph.outputs = {turned ? net.node("Gemm", {a, b}, {{"transA", std::int64_t{1}}})
                                : net.node("MatMul", {a, b})};
    const AccumulatorRow row = only_row(net);
    CHECK(row.bits_needed.has_value() == !turned);
    if (!turned) CHECK(row.worst == WorstSums{3 * 32, -3 * 28});
  }
}

TEST_CASE("an integer operator's weights are whole numbers that a register can count") {
  const std::vector<std::pair<float, bool>> all{
      {1, true}, {-7, true}, {2.5F, false}, {1e30F, false}, {-0x1p60F, false}};
  for (const auto& [weight, counts] : all) {
    CAPTURE_COPY(weight);
    Net net;
    const std::string x = net.quant(net.input("x", {4, 2}), graph::Tensor::scalar(1.0F), 0, 3);
    net.graph.outputs = {
        net.node("MatMulInteger",
                 {x, net.constant("w", graph::Tensor::floats({2, 1}, std::vector<float>{1, weight}))})};
    const ProductLayers layers(graph::infer_shapes(net.graph));
    REQUIRE(layers.size() == 1);
    CHECK(layers.layer(0).weight_failure == (counts ? "" : "its weights are no whole numbers"));
  }
}

TEST_CASE(
    "weights that are whole by their type are codes of step 1; floats that happen to be whole are none") {
  for (const bool is_integer : {true, false}) {
    CAPTURE(is_integer);
    Net net;
    const std::string x = net.quant(net.input("x", {4, 3}), graph::Tensor::scalar(0.5F), 0, 3);
    const std::vector<float> numbers{1, -5, 127};
    std::string w = net.constant("w", graph::Tensor::floats({3, 1}, numbers));
    if (is_integer) {
      net.graph.initializers["w8"] =
          graph::Tensor(graph::ElementType::kInt8, {3, 1}, {std::byte{1}, std::byte{0xfb}, std::byte{127}});
      net.graph.values["w8"] = {.type = graph::ElementType::kInt8, .shape = graph::Shape{3, 1}};
      w = net.node("Cast", {"w8"}, {{"to", std::int64_t{1}}});
    }
    net.graph.outputs = {net.node("MatMul", {x, w})};
    const ProductLayers layers(graph::infer_shapes(net.graph));
    REQUIRE(layers.size() == 1);
    CHECK(layers.layer(0).weight_at == 1);
    CHECK(layers.layer(0).is_float == !is_integer);
    if (is_integer) {
      CHECK(layers.layer(0).codes == Ints{1, -5, 127});
      CHECK(layers.layer(0).scale == std::vector<double>{1});
    }
  }
}

TEST_CASE("sums over no terms start with their bias") {
  const ProductLayer layer{.name = "none",
                           .op = "MatMul",
                           .channels = 2,
                           .length = 0,
                           .bias = graph::BiasPlace::kInside,
                           .bias_codes = {7, -3}};
  CHECK(layer.starts(0, 0) == Ints{7});
  CHECK(layer.starts(1, 0) == Ints{-3});
}

TEST_CASE("what is simulated: products of codes and of two computed operands; what is not says why") {
  Net net;
  const auto computed = [&](const char* name, const Ints& shape) {
    return net.quant(net.input(name, shape), graph::Tensor::scalar(0.5F), 0, 3);
  };
  const std::string image = computed("image", {1, 2, 5, 5}), kernel = computed("kernel", {2, 2, 3, 3});
  const std::string a = computed("a", {4, 3}), b = computed("b", {3, 5}),
                    sequence = computed("sequence", {5, 1, 3});
  net.graph.outputs = {net.node("MatMul", {a, net.weight({3, 2}, 0.5F)}), net.node("MatMul", {a, b}),
                       net.node("Conv", {image, kernel}), net.node("ConvTranspose", {image, kernel}),
                       net.node("LSTM", {sequence, net.weight({1, 8, 3}, 0.5F), net.weight({1, 8, 2}, 0.5F)},
                                {{"hidden_size", std::int64_t{2}}})};
  const AccumulatorSimulation made =
      simulate_accumulators(graph::infer_shapes(net.graph), 32, OverflowMode::kCheck);
  std::set<std::string> outputs;
  for (const auto& product : made.products) outputs.insert(product.output);
  CHECK(outputs == std::set<std::string>(net.graph.outputs.begin(), net.graph.outputs.begin() + 3));
  REQUIRE(made.skipped.size() == 3);
  CHECK(says(made.skipped[0].reason, {"taps of a transposed convolution's computed kernel"}));
  CHECK(says(made.skipped[1].reason, {"more than this product, in one piece"}));
  CHECK(says(made.skipped[2].op, {"H R"}));
}

/// What is said of an operand that nothing quantizes, `make` what makes it of a float input "raw".
std::string why_not(const std::function<std::string(Net&, const std::string&)>& make) {
  Net net;
  const std::string value = make(net, net.input("raw", {4, 3}));
  net.graph.outputs = {net.node("MatMul", {value, net.weight({3, 2}, 0.5F)})};
  return only_row(net).reason;
}

TEST_CASE("the node that hides an operand's range is named, not those that only move elements or cut at 0") {
  using S = std::string;
  const std::vector<std::pair<const char*, std::function<S(Net&, const S&)>>> all{
      {"Relu", [](Net& n, const S& v) { return n.node("Relu", {v}); }},
      {"Identity", [](Net& n, const S& v) { return n.node("Identity", {v}); }},
      {"Reshape",
       [](Net& n, const S& v) {
         return n.node("Reshape", {v, n.constant("to", graph::Tensor::ints({2}, Ints{4, 3}))});
       }},
      {"Gather",
       [](Net& n, const S& v) {
         return n.node("Gather", {v, n.constant("rows", graph::Tensor::ints({2}, Ints{1, 0}))});
       }},
      {"Relu of Identity", [](Net& n, const S& v) { return n.node("Relu", {n.node("Identity", {v})}); }},
  };
  for (const auto& [name, move] : all) {
    CAPTURE_COPY(std::string(name));
    CHECK(says(why_not(move), {"the graph's input 'raw'", "--input-range"}));
    CHECK(says(why_not([&move = move](Net& n, const S& v) { return move(n, n.node("Softmax", {v})); }),
               {"no quantizer", "(Softmax)"}));
  }
  // One whose input has a range, and yet itself none.
  CHECK(says(why_not([](Net& n, const S& v) {
               return n.node("Identity", {n.quant(v, graph::Tensor::scalar(0.5F), 0, 3)},
                             {{"hint", graph::Opaque{"unreadable"}}});
             }),
             {"no quantizer", "(Identity)"}));
}

/// ProductLayer::range_from of what `make` makes of the inputs "a" and "b", quantized to -4..3 and 0..7 on one grid.
std::string range_from(const std::function<std::string(Net&, const std::string&, const std::string&)>& make,
                       const char* product = "MatMul") {
  Net net;
  const std::string a = net.quant(net.input("a", {4, 3}), graph::Tensor::scalar(1.0F), 0, 3);
  const std::string b = net.quant(net.input("b", {4, 3}), graph::Tensor::scalar(1.0F), 0, 3, false);
  const std::string value = make(net, a, b);
  net.graph.nodes.back().name = "it";
  const std::string w = net.weight({3, 2}, 1.0F);
  net.graph.outputs = {net.node(product, {value, w})};
  const ProductLayer layer = ProductLayers(graph::infer_shapes(net.graph)).layer(0);
  CHECK(layer.failure() == "");
  return layer.range_from;
}

TEST_CASE(
    "a range is from the node that changed it, and from none where a quantizer or its input made it so") {
  using S = std::string;
  CHECK(range_from([](Net&, const S& a, const S&) { return a; }) == "");
  CHECK(range_from([](Net& n, const S& a, const S&) { return n.node("Identity", {a}); }) == "");
  CHECK(range_from([](Net& n, const S& a, const S&) { return n.node("Relu", {a}); }) == "node 'it' (Relu)");
  CHECK(range_from([](Net& n, const S& a, const S& b) {
          return n.node("Add", {a, b});
        }) == "node 'it' (Add)");
  // It has the range of one operand.
  CHECK(range_from([](Net& n, const S& a, const S& b) {
          return n.node("Max", {n.node("Relu", {b}), n.node("Identity", {a})});
        }) == "");
  // That a constant has this range too does not say that it is the constant's.
  CHECK(range_from([&](Net& n, const S& a, const S&) {
          const S numbers = n.constant("numbers", graph::Tensor::floats({3}, std::vector<float>{0, 1, 7}));
          return n.node("Max", {a, n.quant(numbers, graph::Tensor::scalar(1.0F), 0, 3, false)});
        }) == "node 'it' (Max)");
  // A quantizer behind another, and one of thresholds: what is before does not matter.
  CHECK(range_from([](Net& n, const S& a, const S&) {
          return n.quant(a, graph::Tensor::scalar(1.0F), 0, 2);
        }) == "");
  CHECK(range_from([](Net& n, const S&, const S&) {
          const S steps = n.constant("steps", graph::Tensor::floats({1, 3}, std::vector<float>{0, 1, 2}));
          return n.node("MultiThreshold", {n.node("Softmax", {n.input("raw", {4, 3})}), steps}, {},
                        graph::kQonnxDomain);
        }) == "");
  // Integers by their type alone.
  const auto shifted = [](Net& n, const S&, const S& b) {
    const S bytes = n.node("Cast", {b}, {{"to", std::int64_t{2}}});
    return n.node("BitShift", {bytes, bytes}, {{"direction", S("LEFT")}});
  };
  CHECK(range_from(shifted, "MatMulInteger") == "");
}

TEST_CASE(
    "squares of floats are no layer to simulate; a float weight's layer "
    "is one that is not") {
  Net net;
  const std::string x = net.quant(net.input("x", {4, 3}), graph::Tensor::scalar(0.5F), 0, 3);
  const std::string w = net.constant("w", graph::Tensor::floats({3, 1}, std::vector<float>{0.3F, 1, 2}));
  net.graph.outputs = {net.node("MatMul", {x, net.weight({3, 2}, 0.5F)}), net.node("MatMul", {x, w}),
                       net.node("ReduceSumSquare", {net.input("raw", {4, 3})})};
  const AccumulatorSimulation made =
      simulate_accumulators(graph::infer_shapes(net.graph), 32, OverflowMode::kCheck);
  REQUIRE(made.products.size() == 1);
  CHECK(made.products[0].output == net.graph.outputs[0]);
  REQUIRE(made.skipped.size() == 1);
  CHECK(made.skipped[0].op == "MatMul");
}

TEST_CASE("an equation's ellipsis may stand for no axis of a weight, or for some") {
  for (const Ints& shape : {Ints{3, 2}, {4, 3, 2}, {5, 4, 3, 2}}) {
    CAPTURE(shape.size());
    Net net;
    Ints rows = shape;
    rows[shape.size() - 2] = 6;
    rows[shape.size() - 1] = 3;
    const std::string x = net.quant(net.input("x", rows), graph::Tensor::scalar(0.5F), 0, 3);
    net.graph.outputs = {
        net.node("Einsum", {x, net.weight(shape, 0.5F)}, {{"equation", std::string("...ij,...jk->...ik")}})};
    const ProductLayers layers(graph::infer_shapes(net.graph));
    REQUIRE(layers.size() == 1);
    CHECK(layers.layer(0).failure() == "");
    CHECK(layers.layer(0).length == 3);
    CHECK(layers.layer(0).codes.size() == static_cast<std::size_t>(graph::count_elements(shape).take()));
  }
}

TEST_CASE("a zero point of a half makes an input's unit half a step, and its step half the scale") {
  for (const float zero : {0.0F, 1.0F, 0.5F, -1.5F}) {
    for (const float scale : {0.5F, 4.0F}) {
      CAPTURE(zero);
      CAPTURE(scale);
      Net net;
      const std::string x = net.quant(net.input("x", {4, 3}), graph::Tensor::scalar(scale), zero, 3);
      net.graph.outputs = {net.node("MatMul", {x, net.weight({3, 2}, 0.25F)})};
      const AccumulatorRow row = only_row(net);
      const bool is_half = std::trunc(zero) != zero;
      const double unit = is_half ? 0.5 : 1;
      REQUIRE(row.input_step);
      CHECK(*row.input_step == static_cast<double>(scale) * unit);
      CHECK(row.input == IntegerRange{static_cast<std::int64_t>((-4 - static_cast<double>(zero)) / unit),
                                      static_cast<std::int64_t>((3 - static_cast<double>(zero)) / unit)});
    }
  }
}

TEST_CASE("inputs and zero points of up to 52 bits and a sign are counted, in units, whichever end is far") {
  struct Case {
    float bits;
    bool is_signed;
    float zero;
    bool is_known;
  };
  for (const Case& it : {Case{53, true, 0, true}, Case{54, true, 0, false}, Case{52, false, 0, true},
                         Case{53, false, 0, false}, Case{52, true, 0.5F, false}, Case{51, true, 0.5F, true},
                         Case{51, false, 0.5F, true}, Case{52, false, 0.5F, false}}) {
    for (const bool is_negated : {false, true}) {
      CAPTURE(it.bits);
      CAPTURE(it.is_signed);
      CAPTURE(it.zero);
      CAPTURE(is_negated);
      Net net;
      std::string x =
          net.quant(net.input("x", {4, 1}), graph::Tensor::scalar(1.0F), it.zero, it.bits, it.is_signed);
      if (is_negated) x = net.node("Neg", {x});
      net.graph.outputs = {net.node("MatMul", {x, net.weight({1, 1}, 0.25F)})};
      const AccumulatorRow row = only_row(net);
      CHECK(row.input.has_value() == it.is_known);
      if (!it.is_known) CHECK(says(row.reason, {"more than 52 bits wide"}));
    }
  }
}

TEST_CASE("zero points of an integer operator: constants, computed ones, and those that are not known") {
  enum class Zero { kNone, kOne, kSeveral, kEmpty, kOfOther, kComputed };
  for (const Zero kind :
       {Zero::kNone, Zero::kOne, Zero::kSeveral, Zero::kEmpty, Zero::kOfOther, Zero::kComputed}) {
    CAPTURE(static_cast<int>(kind));
    Net net;
    const auto bytes = [](const Ints& shape, std::vector<std::byte> values) {
      return graph::Tensor(graph::ElementType::kUint8, shape, std::move(values));
    };
    net.input("x", {2, 2});
    net.graph.values["x"].type = graph::ElementType::kUint8;
    std::vector<std::string> inputs{"x", net.constant("w", bytes({2, 1}, {std::byte{1}, std::byte{2}}))};
    if (kind == Zero::kOne) inputs.push_back(net.constant("z", bytes({}, {std::byte{7}})));
    if (kind == Zero::kSeveral) inputs.push_back(net.constant("z", bytes({2}, {std::byte{9}, std::byte{3}})));
    if (kind == Zero::kEmpty) inputs.push_back(net.constant("z", bytes({0}, {})));
    if (kind == Zero::kOfOther)  // a constant that nobody here computes
      inputs.push_back(net.node("Unheard", {net.constant("c", bytes({}, {std::byte{7}}))}, {}, "made.up"));
    if (kind == Zero::kComputed) {
      net.input("z", {});
      net.graph.values["z"].type = graph::ElementType::kUint8;
      inputs.emplace_back("z");
    }
    net.graph.outputs = {net.node("MatMulInteger", inputs)};
    net.graph.opsets["made.up"] = 1;
    const AccumulatorReport report = check_accumulators(net.graph);
    const auto found = std::ranges::find(report.layers, std::string("MatMulInteger"), &AccumulatorRow::op);
    REQUIRE(found != report.layers.end());
    const auto range = [&]() -> std::optional<IntegerRange> {
      switch (kind) {
        case Zero::kNone: return IntegerRange{0, 255};
        case Zero::kOne: return IntegerRange{-7, 248};
        case Zero::kSeveral: return IntegerRange{-9, 252};
        case Zero::kComputed: return IntegerRange{-255, 255};
        default: return {};
      }
    }();
    CHECK(found->input == range);
    if (!range) CHECK(says(found->reason, {"the zero point", "is not known"}));
  }
}

}  // namespace
}  // namespace crumb::analysis
