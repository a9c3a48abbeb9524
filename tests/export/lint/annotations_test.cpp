// Annotations of quantizers against every number that the quantizer can make, and fixes of what is hardly a node.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "export/lint/lattice.h"
#include "export/lint/lint.h"
#include "graph/datatypes.h"
#include "graph/qonnx/quant_arithmetic.h"
#include "tests/export/lint/findings.h"
#include "tests/graph/node_builder.h"
#include "tests/support/samples.h"

namespace crumb::exporting {
namespace {

using graph::Graph;

using graph::Tensor;

using crumb::testing::says;

TEST_CASE("lint: an annotation is wrong where some code's value is none of the type's, and only there") {
  std::mt19937 engine(4);
  const std::string types[] = {"BIPOLAR", "TERNARY", "BINARY", "INT2", "INT3",
                               "INT4",    "UINT2",   "UINT3",  "UINT4"};
  int right = 0, wrong = 0;
  for (int round = 0; round < 6000; ++round) {
    const float bits = static_cast<float>(1 + engine() % 4), zero = static_cast<float>(engine() % 9) - 4;
    const float scale =
        std::ldexp(1.0F, static_cast<int>(engine() % 3) - 1) * (engine() % 5 == 0 ? -1.0F : 1.0F);
    const bool is_signed = engine() % 2 == 0, narrow = engine() % 2 == 0;
    const graph::IntegerFormat format{.bits = bits, .is_signed = is_signed, .narrow = narrow};
    graph::NodeBuilder net;
    const std::string y =
        net.quant(net.input("x", {1, 3}), Tensor::scalar(scale), zero, bits, is_signed, narrow);
    net.graph.outputs = {y};
    const std::string type = types[engine() % std::size(types)];
    net.graph.values[y] = {.type = graph::ElementType::kFloat, .shape = graph::Shape{{1}, {3}}};
    net.graph.values[y].annotations["finn_datatype"] = type;
    const graph::DataType data_type = graph::DataType::parse(type).take();
    bool holds = true;
    const double step = format.is_bipolar() ? 2 : 1;
    const double low = format.is_bipolar() ? -1 : format.lower(),
                 high = format.is_bipolar() ? 1 : format.upper();
    for (double code = low; code <= high; code += step)
      holds = holds && data_type.allows((code - zero) * static_cast<double>(scale));
    CAPTURE(type);
    CAPTURE(bits);
    CAPTURE(zero);
    CAPTURE(scale);
    CAPTURE(is_signed);
    CAPTURE(narrow);
    CHECK(of_rule(net.graph, Profile::kQonnx, "annotation-type").empty() == holds);
    ++(holds ? right : wrong);
  }
  CHECK(right > 200);
  CHECK(wrong > 200);
}

TEST_CASE("lattice: thresholds' own numbers, and operators of other domains") {
  const auto exponent = [](std::map<std::string, graph::Attribute> attributes) {
    graph::NodeBuilder net;
    const std::string t = net.constant("t", Tensor::floats({1, 2}, {{0.25F, 1}}));
    const std::string y =
        net.node("MultiThreshold", {net.input("x", {1, 3}), t}, std::move(attributes), graph::kQonnxDomain);
    const auto found = lattice_of(net.graph);
    return found.contains(y) ? std::optional(found.at(y)) : std::nullopt;
  };
  CHECK(exponent({}) == 0);
  CHECK(exponent({{"out_scale", 0.5F}}) == -1);
  CHECK(exponent({{"out_scale", 0.5F}, {"out_bias", -0.75F}}) == -2);
  CHECK(exponent({{"out_scale", 4.0F}}) == 2);
  CHECK(exponent({{"out_scale", 4.0F}, {"out_bias", 8.0F}}) == 2);
  CHECK(exponent({{"out_bias", 8.0F}}) == 0);
  CHECK(exponent({{"out_scale", 0.75F}}) == -2);

  graph::NodeBuilder net;
  const std::string q = net.quant(net.input("x", {1, 4, 4, 2}), Tensor::scalar(0.5F), 0, 4);
  const std::string w = net.constant("w", Tensor::floats({1, 1, 1, 2}, {{0.25F, 1}}));
  const std::string own = net.node("Relu", {q}), other = net.node("Relu", {q}, {}, "com.somebody");
  const std::string conv = net.node("Conv", {q, w}, {}, graph::kChannelsLastDomain);
  const auto found = lattice_of(net.graph);
  CHECK(found.at(own) == -1);
  CHECK_FALSE(found.contains(other));
  CHECK(found.at(conv) == -3);
}

TEST_CASE("lattice: the greatest power of two that divides every number that comes out") {
  graph::NodeBuilder net;
  const auto floats = [&](const char* name, std::vector<float> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return net.constant(name, Tensor::floats({count}, values));
  };
  const auto input = [&](const char* name, const char* type) {
    const std::string x = net.input(name, {1, 2, 4, 4});
    if (*type != '\0') net.graph.values[x].annotations["finn_datatype"] = type;
    return x;
  };
  const std::string whole = input("whole", "INT4"), fine = input("fine", "FIXED<4,2>"),
                    plain = input("plain", ""), odd = input("odd", "INT");
  const std::string halves = net.quant(whole, Tensor::scalar(0.5F), 0, 4),
                    fours = net.quant(whole, Tensor::scalar(4.0F), 0, 4);
  struct Case {
    std::string value;
    std::optional<int> exponent;
  };
  const auto relu = [&](const std::string& x) { return net.node("Relu", {x}); };
  const std::string w = net.constant("w", Tensor::floats({1, 2, 1, 1}, {{0.25F, 3}}));
  const auto conv = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {halves, w});
    return net.node("Conv", more);
  };
  const auto scaled = [&](const char* name, std::vector<float> scales) {
    const std::string n = name;
    return net.node("Quant",
                    {plain, floats(name, std::move(scales)), net.constant(n + "_z", Tensor::scalar(0.0F)),
                     net.constant(n + "_b", Tensor::scalar(4.0F))},
                    {}, graph::kQonnxDomain);
  };
  const std::vector<Case> all{
      {relu(whole), 0},
      {relu(fine), {}},
      {relu(plain), {}},
      {relu(odd), {}},
      {relu(halves), -1},
      {relu(fours), 2},
      {net.node("MaxPoolNHWC", {fours}, {}, graph::kQonnxDomain), 2},
      {net.node("Add", {fours, floats("nothing", {0, 0})}), 0},  // of 0 every number is a multiple
      {net.node("Add", {fours, floats("eights", {8, -24})}), 2},
      {net.node("Sub", {fours, floats("six", {6})}), 1},
      {net.node("Add", {fours, plain}), {}},
      {net.node("Add", {plain, fours}), {}},
      {net.node("Add", {fours, floats("unbounded", {1, HUGE_VALF})}), {}},
      {net.node("Concat", {fours, fours, halves}, {{"axis", std::int64_t{1}}}), -1},
      {net.node("Concat", {fours, halves, fours}, {{"axis", std::int64_t{1}}}), -1},
      {net.node("Concat", {fours, fours, plain}, {{"axis", std::int64_t{1}}}), {}},
      {net.node("Mul", {fours, floats("twelve", {12})}), 4},
      {net.node("Mul", {fours, plain}), {}},
      {net.node("Mul", {plain, fours}), {}},
      {conv({}), -3},
      {conv({floats("ones", {1})}), -3},
      {conv({floats("sixteenths", {0.0625F})}), -4},
      {conv({plain}), {}},
      {net.node("Conv", {plain, w, floats("one", {1})}), {}},
      {scaled("powers", {0.25F, -2}), -2},
      {scaled("others", {0.25F, 0.75F}), {}},
      {net.node("Quant",
                {plain, whole, net.constant("of_zero", Tensor::scalar(0.0F)),
                 net.constant("of_four", Tensor::scalar(4.0F))},
                {}, graph::kQonnxDomain),
       {}},
      {net.quant(plain, Tensor::scalar(0.5F), 0.5F, 4), {}},
      {net.quant(plain, Tensor::scalar(0.5F), 0, 4.5F), {}},
      {net.quant(plain, Tensor::scalar(0.5F), 3, 4), -1},
      {net.node("BipolarQuant", {plain, net.constant("b", Tensor::scalar(0.5F))}, {}, graph::kQonnxDomain),
       -1},
  };
  net.graph.nodes.push_back({.name = "silent", .op = "Relu", .inputs = {halves}, .outputs = {}});
  const auto found = lattice_of(net.graph);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const auto one = found.find(all[i].value);
    CHECK((one == found.end() ? std::nullopt : std::optional(one->second)) == all[i].exponent);
  }
}

TEST_CASE("lint: what a quantizer makes by default, and of one bit or of many") {
  const auto is_taken = [](float bits, const char* type, std::map<std::string, graph::Attribute> attributes) {
    graph::NodeBuilder net;
    const std::string y = net.quant(net.input("x", {1, 3}), Tensor::scalar(1.0F), 0, bits);
    net.graph.nodes.back().attributes = std::move(attributes);
    net.graph.nodes.back().attributes["rounding_mode"] = std::string("ROUND");
    net.graph.values[y] = {.type = graph::ElementType::kFloat, .shape = graph::Shape{{1}, {3}}};
    net.graph.values[y].annotations["finn_datatype"] = type;
    net.graph.outputs = {y};
    return of_rule(net.graph, Profile::kQonnx, "annotation-type").empty();
  };
  const std::int64_t zero = 0, one = 1;
  CHECK(is_taken(2, "INT2", {}));           // -2 to 1
  CHECK_FALSE(is_taken(2, "TERNARY", {}));  // without the least
  CHECK_FALSE(is_taken(2, "UINT2", {}));
  CHECK(is_taken(2, "TERNARY", {{"narrow", one}}));
  CHECK(is_taken(2, "UINT2", {{"signed", zero}}));
  CHECK(is_taken(1, "BINARY", {{"signed", zero}}));
  CHECK_FALSE(is_taken(1, "BIPOLAR", {{"signed", zero}}));
  CHECK(is_taken(24, "INT24", {}));
  CHECK_FALSE(is_taken(24, "INT23", {}));
}

TEST_CASE(
    "lint: hls4ml's matrices are those of the data, and a Resize of too few inputs gets its roi all the "
    "same") {
  graph::NodeBuilder net;
  net.graph.outputs = {net.node(
      "MatMul",
      {net.input("x", {1, 5, 3}), net.constant("w", Tensor::floats({3, 2}, std::vector<float>(6, 1)))})};
  const auto found = of_rule(net.graph, Profile::kHls4ml, "operator");
  REQUIRE(found.size() == 1);
  CHECK(says(found[0].message, {"two axes, found 3"}));

  graph::NodeBuilder odd;
  odd.graph.outputs = {odd.node("Resize", {odd.input("x", {1, 1, 4, 4})})};
  const Graph fixed = fix(odd.graph, Profile::kHls4ml);
  const auto resize = std::ranges::find(fixed.nodes, std::string("Resize"), &graph::Node::op);
  REQUIRE(resize != fixed.nodes.end());
  CHECK(resize->inputs.size() >= 2);
}

TEST_CASE("lint: profiles are bits of their own") {
  unsigned all = 0;
  for (const Profile profile : all_profiles()) {
    const auto bit = static_cast<unsigned>(profile);
    CHECK(std::has_single_bit(bit));
    CHECK((all & bit) == 0);
    all |= bit;
  }
}

TEST_CASE(
    "lint: an annotation is held against the quantizer through what moves elements, and through nothing "
    "else") {
  const auto said = [](std::string_view domain, const char* op, float bits, const char* type) {
    graph::NodeBuilder net;
    std::string y = net.quant(net.input("x", {1, 3}), Tensor::scalar(0.5F), 0, bits);
    if (*op != '\0')
      y = net.node(op, {y, net.constant("to", Tensor::ints({2}, std::vector<std::int64_t>{1, 3}))}, {},
                   domain);
    net.graph.values[y] = {.type = graph::ElementType::kFloat, .shape = graph::Shape{{1}, {3}}};
    net.graph.values[y].annotations["finn_datatype"] = type;
    net.graph.outputs = {y};
    const auto found = of_rule(net.graph, Profile::kQonnx, "annotation-type");
    return found.empty() ? std::string() : found[0].message;
  };
  const char* const made = "expected an integer type on integers only";
  CHECK(says(said("", "", 4, "INT4"), {made}));
  CHECK(says(said("", "Reshape", 4, "INT4"), {made}));
  CHECK(says(said("", "Flatten", 4, "INT4"), {made}));
  CHECK(said("made.up", "Reshape", 4, "INT4").find(made) == std::string::npos);
  CHECK(said("", "Erf", 4, "INT4").find(made) == std::string::npos);
  // Up to the widest there is.
  CHECK(says(said("", "", 512, "INT4"), {made}));
  CHECK(said("", "", 513, "INT4").find(made) == std::string::npos);

  CHECK(said("", "", 0.5F, "INT4").find(made) == std::string::npos);
  CHECK(says(said("", "", 1, "INT4"), {made}));
}

}  // namespace
}  // namespace crumb::exporting
