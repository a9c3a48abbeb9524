// Costs: accumulators by enumeration, products by counting loops, types by rule.
#include "analysis/cost/cost.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>
#include <tuple>

#include "graph/facts/bind_shapes.h"
#include "graph/facts/infer_datatypes.h"
#include "quant/accumulator/accumulator.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/testing.h"

namespace crumb::analysis {
namespace {

graph::Value floats(std::vector<std::int64_t> shape) {
  return {.type = graph::ElementType::kFloat, .shape = graph::Shape(shape.begin(), shape.end())};
}

struct Builder : graph::NodeBuilder {
  using graph::NodeBuilder::quant;
  std::string quant(const std::string& x, float scale, float zero, float bits, bool is_signed = true) {
    return graph::NodeBuilder::quant(x, graph::Tensor::scalar(scale), zero, bits, is_signed);
  }
  GraphCost cost(const std::string& output) {
    graph.outputs = {output};
    return cost_of(graph::bind_shapes(graph, {}));
  }
};

TEST_CASE("accumulator bounds are the least by their own formula") {
  for (int input_bits = 1; input_bits <= 8; ++input_bits) {
    for (const bool is_signed : {false, true}) {
      for (const double length : {1.0, 3.0, 64.0, 100.0, 4608.0}) {
        for (int weight_bits = 1; weight_bits <= 8; ++weight_bits) {
          const double alpha = std::log2(length) + input_bits + weight_bits - 1 - (is_signed ? 1 : 0);
          const double wanted = alpha + std::log2(1 + std::exp2(-alpha)) + 1;
          const int found = accumulator_bits_by_types(length, input_bits, is_signed, weight_bits);
          CHECK(found >= wanted - 1e-9);
          CHECK(found < wanted + 1);
        }
      }
    }
  }
  CHECK(accumulator_bits_by_norm(0, 8, false) == 1);
  CHECK(accumulator_bits_by_norm(1, 8, false) == 10);  // 256 does not fit 9 bits
  CHECK(accumulator_bits_by_norm(127, 1, true) == 8);  // +-127
}

TEST_CASE("a quantized MatMul: multiplications, bits and accumulators") {
  Builder b;
  const std::string x = b.quant(b.input("x", {5, 3}), 0.25F, 0, 4, 0);
  const std::string w =
      b.quant(b.constant("w", graph::Tensor::floats({3, 2}, std::vector<float>{0.5F, -1, 0, 0.5F, 0, -0.5F})),
              0.5F, 0, 2);
  const GraphCost cost = b.cost(b.node("MatMul", {x, w}));
  REQUIRE(cost.nodes.size() == 1);
  const NodeCost& node = cost.nodes[0];
  CHECK(node.input.name() == "SCALEDINT<4>");
  CHECK(node.weight.name() == "SCALEDINT<2>");
  CHECK(node.dense.macs == 30);
  CHECK(node.sparse.macs == 20);
  CHECK(node.dense.bops_qonnx == 30 * 8);
  CHECK(node.sparse.bops_qonnx == 20 * 8);
  CHECK(node.dense.bops_qap == doctest::Approx(30 * (8 + 6 + std::log2(3))));
  CHECK(node.sparse.bops_qap == doctest::Approx(20 * 8 + 30 * (6 + std::log2(3))));
  CHECK(node.dense.weight_bits == 12);
  CHECK(node.sparse.weight_bits == 8);
  CHECK(node.dense.activation_bits == 10 * 32);
  CHECK(node.density == doctest::Approx(4.0 / 6));
  REQUIRE(node.accumulator);
  // Levels [[1, -2], [0, 1], [0, -1]], inputs 0 to 15: columns 0..15 and -45..15.
  CHECK(node.accumulator->by_types == accumulator_bits_by_types(3, 4, false, 2));
  CHECK(node.accumulator->by_weights == accumulator_bits_by_norm(4, 4, false));
  CHECK(node.accumulator->exact->name() == "INT7");
}

/// FloatQuant by E, M and IEEE's bias, no code reserved.
std::string float_quant(Builder& b, const std::string& x, int exponent, int mantissa) {
  const std::string n = std::to_string(b.graph.nodes.size());
  const int bias = (1 << (exponent - 1)) - 1;
  const double most = (2 - std::exp2(-mantissa)) * std::exp2((1 << exponent) - 1 - bias);
  const auto number = [&](const char* name, double value) {
    return b.constant(name + n, graph::Tensor::scalar(static_cast<float>(value)));
  };
  return b.node(
      "FloatQuant",
      {x, number("s", 1), number("e", exponent), number("m", mantissa), number("c", bias), number("t", most)},
      {{"has_inf", std::int64_t{0}},
       {"has_nan", std::int64_t{0}},
       {"has_subnormal", std::int64_t{1}},
       {"saturation", std::int64_t{1}},
       {"rounding_mode", std::string("ROUND")}},
      graph::kQonnxDomain);
}

TEST_CASE("minifloats need the fixed-point register that the paper says") {
  for (const auto& [exponent, mantissa, bits] :
       {std::tuple{2, 3, 26}, std::tuple{3, 2, 32}, std::tuple{3, 3, 34}}) {
    Builder b;
    const std::string x = float_quant(b, b.input("x", {1, 4608}), exponent, mantissa);
    const std::string w =
        float_quant(b, b.constant("w", graph::Tensor::floats({4608, 1}, std::vector<float>(4608, 1))),
                    exponent, mantissa);
    const GraphCost cost = b.cost(b.node("MatMul", {x, w}));
    REQUIRE(cost.nodes.at(0).accumulator);
    CHECK(cost.nodes[0].accumulator->by_types == bits);
  }
}

TEST_CASE("registers of minifloats hold the worst sums, and no narrower one does") {
  std::mt19937 random(8);
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
  for (int round = 0; round < (testing::slow() ? 2000 : 400); ++round) {
    const int e1 = pick(1, 4), m1 = pick(0, 3), e2 = pick(1, 4), m2 = pick(0, 3), length = pick(1, 40);
    CAPTURE(round);
    Builder b;
    const std::string x = float_quant(b, b.input("x", {1, length}), e1, m1);
    // Weights on the grid, in units of its smallest subnormal.
    const int bias = (1 << (e2 - 1)) - 1;
    const double unit = std::exp2(1 - bias - m2);
    std::vector<float> weights;
    double norm = 0;
    for (int i = 0; i < length; ++i) {
      const int exponent = pick(0, (1 << e2) - 1), fraction = pick(0, (1 << m2) - 1);
      const double size = exponent == 0 ? fraction : std::ldexp((1 << m2) + fraction, exponent - 1);
      weights.push_back(static_cast<float>(size * unit * (pick(0, 1) == 0 ? 1 : -1)));
      norm += size;
    }
    const std::string w =
        float_quant(b, b.constant("w", graph::Tensor::floats({length, 1}, weights)), e2, m2);
    const GraphCost cost = b.cost(b.node("MatMul", {x, w}));
    const double largest = std::ldexp((1 << (m1 + 1)) - 1, (1 << e1) - 2), worst = norm * largest;
    REQUIRE(cost.nodes.at(0).accumulator);
    const AccumulatorBounds& bounds = *cost.nodes[0].accumulator;
    REQUIRE(bounds.by_weights);
    REQUIRE(bounds.exact);
    CHECK(worst <= std::exp2(*bounds.by_weights - 1) - 1);
    if (worst > 0) CHECK(worst > std::exp2(*bounds.by_weights - 2) - 1);
    CHECK(*bounds.by_weights <= bounds.by_types);
    CHECK(bounds.exact->allows(worst));
    CHECK(bounds.exact->allows(-worst));
    CHECK(bounds.exact->bits() <= *bounds.by_weights);
  }
}

TEST_CASE("a recurrent layer costs the same whichever of its outputs are named") {
  for (const auto& [op, gates, outputs] :
       {std::tuple{"LSTM", 4, 3u}, std::tuple{"GRU", 3, 2u}, std::tuple{"RNN", 1, 2u}}) {
    CAPTURE_COPY(op);
    const std::int64_t hidden = 5, steps = 7, batch = 2, in = 3, rows = gates * hidden;
    for (unsigned named = 1; named < 1u << outputs; ++named) {
      CAPTURE(named);
      Builder b;
      const std::string x = b.input("x", {steps, batch, in});
      const auto weight = [&](const char* name, std::int64_t width) {
        return b.constant(
            name, graph::Tensor::floats({1, rows, width},
                                        std::vector<float>(static_cast<std::size_t>(rows * width), 0.5F)));
      };
      b.node(op, {x, weight("w", in), weight("r", hidden)}, {{"hidden_size", hidden}});
      graph::Node& node = b.graph.nodes.back();
      node.outputs.clear();
      std::string last;
      for (unsigned i = 0; i < outputs; ++i) {
        const bool has = (named >> i & 1u) != 0;
        node.outputs.push_back(has ? "out" + std::to_string(i) : "");
        if (has) last = node.outputs.back();
      }
      const GraphCost cost = b.cost(last);
      REQUIRE(cost.nodes.size() == 1);
      CHECK(cost.nodes[0].dense.macs == static_cast<double>(steps * batch * rows * (in + hidden)));
      const std::int64_t results = (named & 1u) != 0 ? steps * batch * hidden : batch * hidden;
      CHECK(cost.nodes[0].dense.activation_bits == 32.0 * static_cast<double>(results));
    }
  }
}

TEST_CASE("weights on halves count in halves") {
  Builder b;
  const std::string x = b.quant(b.input("x", {1, 2}), 1, 0, 2);
  const std::string w =
      b.quant(b.constant("w", graph::Tensor::floats({2, 1}, std::vector<float>{1.5F, -0.5F})), 1, -0.5F, 2);
  const GraphCost cost = b.cost(b.node("MatMul", {x, w}));
  REQUIRE(cost.nodes[0].accumulator);
  CHECK(cost.nodes[0].accumulator->by_types == accumulator_bits_by_types(2, 2, true, 3));
  CHECK(cost.nodes[0].accumulator->by_weights == accumulator_bits_by_norm(4, 2, true));  // 3 and -1
  CHECK(cost.nodes[0].accumulator->exact->name() == "INT4");                             // -7 to 5
}

TEST_CASE("no accumulator where scales vary along the sum, or nothing is quantized") {
  Builder b;
  const std::string x = b.quant(b.input("x", {1, 2}), 1, 0, 4);
  const std::string scale = b.constant("s", graph::Tensor::floats({2, 1}, std::vector<float>{1, 2}));
  const std::string w0 = b.constant("w0", graph::Tensor::floats({2, 2}, std::vector<float>{1, 2, 3, 4}));
  const std::string zero = b.constant("z", graph::Tensor::scalar(0.0F)),
                    bits = b.constant("bits", graph::Tensor::scalar(4.0F));
  const std::map<std::string, graph::Attribute> attributes{{"signed", std::int64_t{1}},
                                                           {"narrow", std::int64_t{0}}};
  const std::string w = b.node("Quant", {w0, scale, zero, bits}, attributes, graph::kQonnxDomain);
  const std::string turned = b.node("Transpose", {w}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  const std::string along = b.node("MatMul", {x, w}), across = b.node("MatMul", {x, turned});
  const std::string plain = b.node("MatMul", {"x", "w0"});
  const GraphCost cost = b.cost(b.node("Sum", {along, across, plain}));
  REQUIRE(cost.nodes.size() == 3);
  CHECK_FALSE(cost.nodes[0].accumulator);
  CHECK(cost.nodes[1].accumulator);
  CHECK_FALSE(cost.nodes[2].accumulator);
  CHECK(cost.nodes[2].dense.bops_qonnx == 4 * 32 * 32);
}

TEST_CASE("convolutions count what loops would") {
  std::mt19937 engine(3);
  const auto pick = [&](int low, int high) {
    return static_cast<std::int64_t>(std::uniform_int_distribution<int>(low, high)(engine));
  };
  for (int round = 0; round < 40; ++round) {
    const std::int64_t groups = pick(1, 3), in = pick(1, 3), out = pick(1, 3), k = pick(1, 3), n = pick(1, 2);
    const std::int64_t size = pick(3, 7), stride = pick(1, 2);
    const std::map<std::string, graph::Attribute> attributes{
        {"group", groups}, {"strides", std::vector<std::int64_t>{stride, stride}}};
    const auto weight = [&](std::int64_t first, std::int64_t second) {
      return graph::Tensor::floats({first, second, k, k},
                                   std::vector<float>(static_cast<std::size_t>(first * second * k * k), 1));
    };
    CAPTURE(round);
    Builder b;
    b.input("x", {n, groups * in, size, size});
    const GraphCost cost =
        b.cost(b.node("Conv", {"x", b.constant("w", weight(groups * out, in))}, attributes));
    const std::int64_t made = (size - k) / stride + 1;
    CHECK(cost.dense.macs == static_cast<double>(n * groups * out * made * made * in * k * k));
    CHECK(cost.nodes[0].length == static_cast<double>(in * k * k));
    Builder t;
    t.input("x", {n, groups * in, size, size});
    const GraphCost back =
        t.cost(t.node("ConvTranspose", {"x", t.constant("w", weight(groups * in, out))}, attributes));
    CHECK(back.dense.macs == static_cast<double>(n * groups * in * size * size * out * k * k));
  }
}

TEST_CASE("the quantization-aware pruning paper's network costs what the paper says") {
  Builder b;
  std::string x = b.input("x", {1, 16});
  const std::int64_t widths[] = {16, 64, 32, 32, 5};
  for (int i = 0; i < 4; ++i) {
    const auto size = static_cast<std::size_t>(widths[i] * widths[i + 1]);
    x = b.node("MatMul",
               {x, b.constant("w" + std::to_string(i), graph::Tensor::floats({widths[i], widths[i + 1]},
                                                                             std::vector<float>(size, 1)))});
  }
  CHECK(b.cost(x).dense.bops_qap == 4652832);
}

TEST_CASE("types by qonnx's rules and by what the values are") {
  struct Row {
    const char* what;
    std::function<std::string(Builder&)> build;
    const char *by_qonnx, *exact;
  };
  const auto one = [](const char* op) {
    return [op](Builder& b) { return b.node(op, {b.quant("x", 1, 0, 4)}); };
  };
  const Row rows[] = {
      {"unit scale", [](Builder& b) { return b.quant("x", 1, 0, 4); }, "INT4", "INT4"},
      {"unsigned", [](Builder& b) { return b.quant("x", 1, 0, 4, 0); }, "UINT4", "UINT4"},
      {"one bit", [](Builder& b) { return b.quant("x", 1, 0, 1); }, "BIPOLAR", "BIPOLAR"},
      {"one bit, unsigned", [](Builder& b) { return b.quant("x", 1, 0, 1, 0); }, "BINARY", "BINARY"},
      {"scaled", [](Builder& b) { return b.quant("x", 0.5F, 0, 4); }, "SCALEDINT<4>", "SCALEDINT<4>"},
      {"zero point", [](Builder& b) { return b.quant("x", 0.5F, 1, 4); }, "FLOAT32", "SCALEDINT<4>"},
      {"unit scale, zero point", [](Builder& b) { return b.quant("x", 1, 8, 4, 0); }, "FLOAT32", "INT4"},
      {"fractional width", [](Builder& b) { return b.quant("x", 0.5F, 0, 2.5F); }, "FLOAT32", "SCALEDINT<3>"},
      {"DepthToSpace", one("DepthToSpace"), "FLOAT32", "INT4"},
      {"Reshape", one("Flatten"), "INT4", "INT4"},
      {"Sign", one("Sign"), "BIPOLAR", "TERNARY"},
      {"Sigmoid", one("Sigmoid"), "FLOAT32", "FLOAT32"},
      {"products",
       [](Builder& b) {
         return b.node("Mul", {b.quant("x", 1, 0, 4), b.quant("x", 1, 0, 2)});
       },
       "INT32", "INT32"},
      {"Sub",
       [](Builder& b) {
         return b.node("Sub", {b.quant("x", 1, 0, 4, 0), b.quant("x", 1, 0, 2, 0)});
       },
       "INT32", "INT32"},
      {"unsigned sums",
       [](Builder& b) {
         return b.node("Add", {b.quant("x", 1, 0, 4, 0), b.quant("x", 1, 0, 2, 0)});
       },
       "UINT32", "UINT32"},
      {"mixed",
       [](Builder& b) {
         return b.node("Add", {b.quant("x", 1, 0, 4), b.quant("x", 0.5F, 0, 2)});
       },
       "SCALEDINT<32>", "SCALEDINT<32>"},
      {"with a float",
       [](Builder& b) {
         return b.node("Add", {b.quant("x", 1, 0, 4), "x"});
       },
       "FLOAT32", "FLOAT32"},
      {"bipolar, scaled",
       [](Builder& b) {
         return b.node("BipolarQuant", {"x", b.constant("s", graph::Tensor::scalar(0.5F))}, {},
                       graph::kQonnxDomain);
       },
       "FLOAT32", "SCALEDINT<1>"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    Builder b;
    b.input("x", {1, 4, 2, 2});
    const std::string value = row.build(b);
    const graph::ConstantValues constants(b.graph);
    CHECK(infer_data_types(b.graph, constants, graph::TypeRules::kQonnx).at(value).type.name() ==
          row.by_qonnx);
    CHECK(infer_data_types(b.graph, constants, graph::TypeRules::kExact).at(value).type.name() == row.exact);
  }
}

TEST_CASE("QuantizeLinear, Clip, DequantizeLinear is as wide as the Clip says") {
  Builder b;
  b.input("x", {1, 4});
  const std::string scale = b.constant("s", graph::Tensor::scalar(0.5F));
  const std::string zero = b.constant("z", graph::Tensor(graph::ElementType::kInt8, {}, {std::byte{0}}));
  const std::string low = b.constant("low", graph::Tensor(graph::ElementType::kInt8, {}, {std::byte{0xF9}}));
  const std::string high = b.constant("high", graph::Tensor(graph::ElementType::kInt8, {}, {std::byte{7}}));
  const std::string codes = b.node("QuantizeLinear", {"x", scale, zero});
  b.graph.values[codes] = {.type = graph::ElementType::kInt8, .shape = graph::Shape{1, 4}};
  const std::string clipped = b.node("Clip", {codes, low, high});
  b.graph.values[clipped] = b.graph.values[codes];
  const std::string value = b.node("DequantizeLinear", {clipped, scale, zero});
  const graph::ConstantValues constants(b.graph);
  CHECK(infer_data_types(b.graph, constants, graph::TypeRules::kQonnx).at(value).type.name() ==
        "SCALEDINT<8>");
  const graph::ValueType exact = infer_data_types(b.graph, constants, graph::TypeRules::kExact).at(value);
  CHECK(exact.type.name() == "SCALEDINT<4>");
  REQUIRE(exact.levels);
  CHECK(exact.levels->low == -7);
}

TEST_CASE("annotations are on whole numbers only") {
  Builder b;
  b.input("x", {2, 2});
  b.graph.values["x"].annotations["finn_datatype"] = "INT8";
  const std::string whole =
      b.constant("whole", graph::Tensor::floats({2, 2}, std::vector<float>{1, -2, 0, 3}));
  const std::string wrong =
      b.constant("wrong", graph::Tensor::floats({2, 2}, std::vector<float>{1, 0.5F, 0, 3}));
  b.graph.values[whole].annotations["finn_datatype"] = "INT4";
  b.graph.values[wrong].annotations["finn_datatype"] = "INT4";
  const std::string scaled = b.quant("x", 0.5F, 0, 4);
  b.graph.values[scaled].annotations["finn_datatype"] = "INT4";  // which would make qonnx fail
  const std::string product = b.node("MatMul", {"x", whole});
  b.graph.outputs = {b.node("Add", {product, wrong}), scaled};
  const graph::Graph annotated = graph::annotate_integers(b.graph);
  const auto type = [&](const std::string& value) {
    const auto& found = annotated.values.at(value).annotations;
    return found.contains("finn_datatype") ? found.at("finn_datatype") : "";
  };
  CHECK(type("x") == "INT8");
  CHECK(type(whole) == "INT4");
  CHECK(type(wrong) == "");
  CHECK(type(scaled) == "");
  CHECK(type(product) == "INT32");
}

TEST_CASE("an annotation that cannot be read is an error that names its value") {
  Builder b;
  b.input("x", {2, 2});
  b.graph.values["x"].annotations["finn_datatype"] = "__import__('os')";
  CHECK_THROWS_WITH_AS(b.cost(b.node("Relu", {"x"})), doctest::Contains("annotation of value 'x'"), Error);
}

TEST_CASE("open dimensions are bound, symbols the same everywhere") {
  Builder b;
  b.input("x", {1, 1});
  b.input("y", {1, 1});
  b.graph.values["x"].shape = graph::Shape{graph::Dim("batch"), graph::Dim("n")};
  b.graph.values["y"].shape = graph::Shape{graph::Dim("n"), graph::Dim()};
  b.graph.outputs = {b.node("MatMul", {"x", "y"})};
  CHECK(cost_of(graph::bind_shapes(b.graph, {})).dense.macs == 1);
  CHECK(cost_of(graph::bind_shapes(b.graph, {{"x", {2, 7}}})).dense.macs == 14);
  CHECK(cost_of(graph::bind_shapes(b.graph, {{"x", {2, 7}}, {"y", {7, 3}}})).dense.macs == 42);
  CHECK_THROWS_WITH_AS(graph::bind_shapes(b.graph, {{"x", {2, 7}}, {"y", {5, 3}}}),
                       doctest::Contains("'n' is 7"), Error);
  CHECK_THROWS_WITH_AS(graph::bind_shapes(b.graph, {{"x", {2}}}), doctest::Contains("input 'x'"), Error);
  CHECK_THROWS_WITH_AS(graph::bind_shapes(b.graph, {{"xx", {2}}}), doctest::Contains("xx"), Error);
}

TEST_CASE("constants that double at every step are not followed for ever") {
  Builder b;
  std::string value = b.constant("c", graph::Tensor::floats({2, 2}, std::vector<float>{1, 2, 3, 4}));
  for (int i = 0; i < 300; ++i) {
    value = b.node("Add", {value, value});
    b.graph.values[value] = floats({2, 2});
  }
  b.input("x", {1, 2});
  const GraphCost cost = b.cost(b.node("MatMul", {"x", value}));
  CHECK(cost.dense.macs == 4);
}

}  // namespace
}  // namespace crumb::analysis
