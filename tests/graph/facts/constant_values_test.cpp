// What is computed of constants without an engine: against the operators' definitions, written down once more.
#include "graph/facts/constant_values.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "graph/onnx/infer_shapes.h"
#include "graph/strided_index.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using Doubles = std::vector<double>;

struct Constants : NodeBuilder {
  std::string floats(const Ints& shape, const std::vector<float>& values) {
    return constant("f" + std::to_string(graph.initializers.size()), Tensor::floats(shape, values));
  }
  std::string ints(const Ints& shape, const Ints& values) {
    return constant("i" + std::to_string(graph.initializers.size()), Tensor::ints(shape, values));
  }
  std::optional<ConstantValue> find(const std::string& value) {
    graph.outputs = {value};
    return ConstantValues(infer_shapes(graph)).find(value);
  }
};

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST_CASE("constants: one operand, float32 results") {
  const std::vector<std::pair<const char*, std::function<double(double)>>> all{
      {"Sqrt", [](double v) { return std::sqrt(v); }},
      {"Neg", [](double v) { return 0 - v; }},
      {"Abs", [](double v) { return v < 0 ? -v : v; }},
      {"Exp", [](double v) { return std::exp(v); }},
      {"Reciprocal", [](double v) { return 1 / v; }},
      {"Relu", [](double v) { return v > 0 ? v : 0; }},
      {"Floor", [](double v) { return std::floor(v); }},
      {"Ceil", [](double v) { return std::ceil(v); }},
      {"Round",
       [](double v) {
         const double down = std::floor(v);
         if (v - down == 0.5) return std::fmod(down, 2) == 0 ? down : down + 1;  // ties to even
         return v - down < 0.5 ? down : down + 1;
       }},
      {"Identity", [](double v) { return v; }},
  };
  const std::vector<float> values{-3.5F, -2.5F, -0.75F, 0.5F, 1, 1.5F, 2, 2.25F, 9, 17.3F};
  for (const auto& [op, by] : all) {
    CAPTURE_COPY(op);
    Constants made;
    const auto found = made.find(made.node(op, {made.floats({2, 5}, values)}));
    REQUIRE(found);
    CHECK(found->shape == Ints{2, 5});
    CHECK_FALSE(found->wide);
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(same(found->values[i], static_cast<float>(by(values[i]))));
  }
  Constants made;
  CHECK_FALSE(made.find(made.node("Sin", {made.floats({2}, {1, 2})})));
}

TEST_CASE(
    "constants: two operands broadcast, integers divide toward zero, and what might wrap is not known") {
  const std::vector<std::pair<const char*, std::function<double(double, double)>>> all{
      {"Add", std::plus()},
      {"Sub", std::minus()},
      {"Mul", std::multiplies()},
      {"Div", std::divides()},
      {"Pow", [](double x, double y) { return std::pow(x, y); }}};
  const std::vector<float> a{1, 2, 3.5F, -4, 5, 0.25F}, b{2, -3, 0.5F};
  for (const auto& [op, by] : all) {
    CAPTURE_COPY(op);
    Constants made;
    const auto found = made.find(made.node(op, {made.floats({2, 3}, a), made.floats({3}, b)}));
    REQUIRE(found);
    CHECK(found->shape == Ints{2, 3});
    for (std::size_t i = 0; i < 6; ++i) CHECK(same(found->values[i], static_cast<float>(by(a[i], b[i % 3]))));
    Constants turned;
    const auto crossed =
        turned.find(turned.node(op, {turned.floats({2, 1}, {3, 5}), turned.floats({1, 3}, b)}));
    REQUIRE(crossed);
    CHECK(crossed->shape == Ints{2, 3});
    for (std::size_t i = 0; i < 6; ++i)
      CHECK(same(crossed->values[i], static_cast<float>(by(i < 3 ? 3 : 5, b[i % 3]))));
  }
  Constants made;
  const auto found =
      made.find(made.node("Div", {made.ints({4}, {7, -7, 7, -7}), made.ints({4}, {2, 2, -2, -2})}));
  REQUIRE(found);
  CHECK(found->values == Doubles{3, -3, -3, 3});
  CHECK(found->wide);
  CHECK(found->whole);
  const std::int64_t most = (std::int64_t{1} << 53) - 1;  // float64 tells it from the next
  Constants fits, wraps, below, under;
  CHECK(fits.find(fits.node("Add", {fits.ints({1}, {most - 1}), fits.ints({1}, {1})})));
  CHECK_FALSE(wraps.find(wraps.node("Add", {wraps.ints({1}, {most}), wraps.ints({1}, {1})})));
  CHECK(below.find(below.node("Sub", {below.ints({1}, {1 - most}), below.ints({1}, {1})})));
  CHECK_FALSE(under.find(under.node("Sub", {under.ints({1}, {-most}), under.ints({1}, {1})})));
}

TEST_CASE("constants: Clip by attributes and by inputs, missing and not a number") {
  const std::vector<float> x{-5, -1, 0.5F, 3, 8};
  const auto clipped = [&](std::optional<float> low, std::optional<float> high, bool by_inputs) {
    Constants made;
    std::vector<std::string> inputs{made.floats({5}, x)};
    std::map<std::string, Attribute> attributes;
    if (by_inputs) {
      inputs.push_back(low ? made.constant("low", Tensor::scalar(*low)) : "");
      if (high) inputs.push_back(made.constant("high", Tensor::scalar(*high)));
    } else {
      if (low) attributes["min"] = *low;
      if (high) attributes["max"] = *high;
    }
    const std::string y = made.node("Clip", inputs, attributes);
    if (!by_inputs) made.graph.nodes.back().version = 6;
    return made.find(y);
  };
  for (const bool by_inputs : {false, true}) {
    CHECK(clipped(-2.0F, 4.0F, by_inputs)->values == Doubles{-2, -1, 0.5, 3, 4});
    CHECK(clipped(-2.0F, std::nullopt, by_inputs)->values == Doubles{-2, -1, 0.5, 3, 8});
    CHECK(clipped(std::nullopt, 4.0F, by_inputs)->values == Doubles{-5, -1, 0.5, 3, 4});
    CHECK_FALSE(clipped(std::nanf(""), 4.0F, by_inputs));
    CHECK_FALSE(clipped(-2.0F, std::nanf(""), by_inputs));
  }
}

TEST_CASE("constants: what is left open, and too deep or too large") {
  Constants two_bounds;
  CHECK_FALSE(two_bounds.find(
      two_bounds.node("Clip", {two_bounds.floats({2}, {1, 2}), two_bounds.floats({2}, {0, 1})})));
  Constants open;
  CHECK_FALSE(open.find(open.node("Add", {open.floats({2}, {1, 2}), open.input("x", {2})})));
  Constants unknown;  // behind an operator that is not computed
  CHECK_FALSE(unknown.find(unknown.node("Neg", {unknown.node("Sin", {unknown.floats({2}, {1, 2})})})));
  CHECK_FALSE(unknown.find("nobody makes it"));
  const auto deep = [](int nodes) {
    Constants made;
    std::string value = made.floats({1}, {3});
    for (int i = 0; i < nodes; ++i) value = made.node("Neg", {value});
    return made.find(value);
  };
  REQUIRE(deep(200));
  CHECK(deep(199)->values == Doubles{-3});
  CHECK_FALSE(deep(201));
  const auto spread = [](std::int64_t rows, std::int64_t columns) {
    Constants made;
    return made
        .find(
            made.node("Add", {made.floats({rows, 1}, std::vector<float>(static_cast<std::size_t>(rows))),
                              made.floats({columns}, std::vector<float>(static_cast<std::size_t>(columns)))}))
        .has_value();
  };
  CHECK(spread(32, 32));  // 1024 of 64: sixteen times as many
  CHECK_FALSE(spread(33, 33));
}

TEST_CASE("constants: scales along an axis that is not there") {
  const auto known = [](std::int64_t axis, std::int64_t scales, std::int64_t zeros) {
    Constants made;
    const Tensor codes(ElementType::kInt8, {2, 3}, std::vector<std::byte>(6, std::byte{1}));
    const Tensor zero(ElementType::kInt8, {zeros}, std::vector<std::byte>(static_cast<std::size_t>(zeros)));
    const std::vector<float> scale(static_cast<std::size_t>(scales), 0.5F);
    return made
        .find(made.node(
            "DequantizeLinear",
            {made.constant("codes", codes), made.floats({scales}, scale), made.constant("zero", zero)},
            {{"axis", axis}}))
        .has_value();
  };
  CHECK(known(1, 3, 3));
  CHECK(known(-1, 3, 3));
  CHECK(known(0, 2, 2));
  CHECK(known(-2, 2, 2));
  for (const std::int64_t axis : {-4, -3, 2, 3}) CHECK_FALSE(known(axis, 3, 3));
  CHECK_FALSE(known(0, 3, 3));
  CHECK_FALSE(known(1, 2, 2));
  CHECK_FALSE(known(1, 3, 2));
  CHECK(known(7, 1, 1));  // one scale has no axis
}

TEST_CASE("constants: one number") {
  Constants made;
  const std::string one = made.floats({1, 1}, {3}), two = made.floats({2}, {3, 4});
  const Graph graph = made.graph;
  const ConstantValues constants(graph);
  CHECK(constants.number(one) == 3.0);
  CHECK_FALSE(constants.number(two));
  CHECK_FALSE(constants.number("nobody makes it"));
}

TEST_CASE("constants: Dropout before it had an input for it") {
  for (const auto& [version, attributes, known] :
       std::vector<std::tuple<std::int64_t, std::map<std::string, Attribute>, bool>>{
           {6, {{"is_test", std::int64_t{1}}}, true},
           {6, {{"is_test", std::int64_t{0}}}, false},
           {6, {}, false},
           {7, {}, true}}) {
    Constants made;
    const std::string y = made.node("Dropout", {made.floats({2}, {1, 2})}, attributes);
    made.graph.nodes.back().version = version;
    CHECK(made.find(y).has_value() == known);
  }
  Constants trains;
  const Tensor yes(ElementType::kBool, {}, {std::byte{1}});
  CHECK_FALSE(trains.find(trains.node(
      "Dropout", {trains.floats({2}, {1, 2}), trains.floats({}, {0.5F}), trains.constant("t", yes)})));
}

TEST_CASE("constants: quantizers whose parameters do not fit name the node") {
  const auto fails = [](const std::string& op, const std::vector<std::size_t>& sizes,
                        const std::string& mode = "ROUND") -> std::string {
    Constants made;
    std::vector<std::string> inputs{made.floats({2, 2}, {1, 2, 3, 4})};
    for (const std::size_t size : sizes) {
      inputs.push_back(size == 0 ? ""
                       : size == 1
                           ? made.floats({}, {4})
                           : made.floats({static_cast<std::int64_t>(size)}, std::vector<float>(size, 4)));
    }
    try {
      return made.find(made.node(op, inputs, {{"rounding_mode", mode}}, kQonnxDomain)) ? "known" : "unknown";
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find("node '" + op) != std::string::npos);
      return error.what();
    }
  };
  const auto says = [&](const std::string& found, const std::string& text) {
    CHECK_MESSAGE(found.find(text) != std::string::npos, found);
  };
  CHECK(fails("Quant", {1, 1, 1}) == "known");
  CHECK(fails("IntQuant", {2, 2, 1}) == "known");
  CHECK(fails("BipolarQuant", {1}) == "known");
  CHECK(fails("FloatQuant", {1, 1, 1, 1, 1}) == "known");
  CHECK(fails("Trunc", {1, 1, 1, 1}) == "unknown");
  says(fails("Quant", {1, 1}), "has 3 inputs, expected 4");
  says(fails("BipolarQuant", {}), "has 1 inputs, expected 2");
  says(fails("BipolarQuant", {0}), "expected 2");
  says(fails("FloatQuant", {1, 1, 1, 1}), "has 5 inputs, expected 6");
  says(fails("Quant", {1, 1, 2}), "input 3 has the shape [2], expected one number");
  says(fails("FloatQuant", {1, 2, 1, 1, 1}), "input 2 has the shape [2]");
  says(fails("FloatQuant", {1, 1, 2, 1, 1}), "input 3 has the shape [2]");
  says(fails("FloatQuant", {1, 1, 1, 2, 1}), "input 4 has the shape [2]");
  says(fails("FloatQuant", {1, 1, 1, 1, 2}), "input 5 has the shape [2]");
  says(fails("Quant", {3, 1, 1}), "does not broadcast");
  says(fails("Quant", {1, 3, 1}), "does not broadcast");
  says(fails("BipolarQuant", {3}), "does not broadcast");
  says(fails("FloatQuant", {3, 1, 1, 1, 1}), "does not broadcast");
  says(fails("Quant", {1, 1, 1}, "SIDEWAYS"), "rounding_mode is 'SIDEWAYS'");
}

TEST_CASE("constants: vectors behind each other, parts of them, and elements") {
  Constants made;
  const std::string v =
      made.node("Concat", {made.ints({2}, {4, 5}), made.ints({3}, {6, 7, 8})}, {{"axis", std::int64_t{0}}});
  CHECK(made.find(v)->values == Doubles{4, 5, 6, 7, 8});
  const auto sliced = [&](std::int64_t begin, std::int64_t end) {
    Constants one;
    return one
        .find(
            one.node("Slice", {one.ints({5}, {4, 5, 6, 7, 8}), one.ints({1}, {begin}), one.ints({1}, {end})}))
        ->values;
  };
  CHECK(sliced(1, 3) == Doubles{5, 6});
  CHECK(sliced(-2, 99) == Doubles{7, 8});
  CHECK(sliced(0, -1) == Doubles{4, 5, 6, 7});
  CHECK(sliced(3, 2) == Doubles{});
  CHECK(sliced(-9, 1) == Doubles{4});
  const auto gathered = [&](std::int64_t at) {
    Constants one;
    return one.find(one.node("Gather", {one.ints({3}, {4, 5, 6}), one.ints({1}, {at})}));
  };
  CHECK(gathered(0)->values == Doubles{4});
  CHECK(gathered(2)->values == Doubles{6});
  CHECK(gathered(-3)->values == Doubles{4});
  CHECK_FALSE(gathered(3));
  CHECK_FALSE(gathered(-4));
}

TEST_CASE("constants: values stay levels times scales when quantized ones are turned and reshaped") {
  std::size_t kept = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 engine(seed);
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(engine);
    };
    Constants made;
    const Ints shape{draw(1, 3), draw(2, 4), draw(1, 3)};
    Ints scale_shape(static_cast<std::size_t>(draw(0, 3)));
    for (std::size_t i = 0; i < scale_shape.size(); ++i)
      scale_shape[i] = draw(0, 1) == 0 ? 1 : shape[shape.size() - scale_shape.size() + i];
    std::vector<float> values(static_cast<std::size_t>(count_elements(shape).take()));
    for (float& value : values) value = static_cast<float>(draw(-40, 40)) / 4;
    std::vector<float> scales(static_cast<std::size_t>(count_elements(scale_shape).take()));
    for (float& scale : scales) scale = std::exp2(static_cast<float>(draw(-3, 1)));
    std::string y = made.quant(made.floats(shape, values), Tensor::floats(scale_shape, scales), 0, 4);
    const auto first = made.find(y);
    REQUIRE(first);
    Ints perm{0, 1, 2};
    std::shuffle(perm.begin(), perm.end(), engine);
    const bool turns = draw(0, 1) == 0;
    if (turns) {
      y = made.node("Transpose", {y}, {{"perm", perm}});
    } else {
      y = made.node("Reshape", {y, made.ints({1}, {-1})});
    }
    const auto found = made.find(y);
    REQUIRE(found);
    if (turns) {
      StridedIndex from = StridedIndex::permuted(shape, perm);
      for (std::size_t i = 0; i < found->values.size(); ++i, from.next())
        CHECK(found->values[i] == first->values[from.at()]);
    } else {
      CHECK(found->values == first->values);
    }
    CHECK((turns || scales.size() == 1) == !found->levels.empty());
    if (found->levels.empty()) continue;
    ++kept;
    auto at = StridedIndex::broadcast(found->shape, found->scale_shape);
    REQUIRE(at);
    for (std::size_t i = 0; i < found->values.size(); ++i, at->next())
      CHECK(found->levels[i] * found->scale[at->at()] == found->values[i]);
  }
  CHECK(kept > 100);
}

}  // namespace
}  // namespace crumb::graph
