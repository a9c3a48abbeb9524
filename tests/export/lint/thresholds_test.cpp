// Quantizers as thresholds: the code of every float is the number of thresholds it reaches.
#include "export/lint/thresholds.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "export/lint/lattice.h"
#include "graph/qonnx/quant_arithmetic.h"

namespace crumb::exporting {
namespace {

struct Quantizer {
  std::vector<float> scales{1};
  float zero = 0, bits = 4;
  bool is_signed = true, narrow = false;
  std::string mode = "ROUND";
};

/// x [1, C, 2] -> Quant -> y.
Graph graph_of(const Quantizer& quantizer) {
  Graph graph;
  const auto channels = static_cast<std::int64_t>(quantizer.scales.size());
  graph.inputs = {"x"};
  graph.outputs = {"y"};
  for (const char* value : {"x", "y"})
    graph.values[value] = {.type = graph::ElementType::kFloat, .shape = Shape{{1}, {channels}, {2}}};
  const auto constant = [&](const char* name, Tensor tensor) {
    return graph::add_constant(graph, name, std::move(tensor));
  };
  Node node{.name = "q", .op = "Quant", .domain = std::string(graph::kQonnxDomain), .outputs = {"y"}};
  node.inputs = {"x", constant("scale", Tensor::floats({1, channels, 1}, quantizer.scales)),
                 constant("zero", Tensor::scalar(quantizer.zero)),
                 constant("bits", Tensor::scalar(quantizer.bits))};
  node.attributes = {{"signed", std::int64_t{quantizer.is_signed}},
                     {"narrow", std::int64_t{quantizer.narrow}},
                     {"rounding_mode", quantizer.mode}};
  graph.nodes.push_back(std::move(node));
  return graph;
}

double code_of(const Quantizer& quantizer, float scale, float x) {
  const std::vector<double> value{x}, factor{scale}, zero{quantizer.zero};
  const graph::IntegerFormat format{
      .bits = quantizer.bits, .is_signed = quantizer.is_signed, .narrow = quantizer.narrow};
  const auto made = graph::quantize({value, {}}, {factor, {}}, {zero, {}}, format,
                                    *graph::find_quant_rounding(quantizer.mode));
  REQUIRE(made.ok());
  return made.value().integers[0] - quantizer.zero;
}

double counted(const Thresholds& thresholds, std::size_t row, float x) {
  const auto first = thresholds.values.begin() + static_cast<std::ptrdiff_t>(row * thresholds.count());
  return thresholds.low +
         static_cast<double>(std::count_if(first, first + static_cast<std::ptrdiff_t>(thresholds.count()),
                                           [&](float threshold) { return x >= threshold; }));
}

TEST_CASE("thresholds: every float has its code, whatever the mode, scales, zero point and width") {
  std::mt19937 engine(5);
  const auto below = [&](unsigned n) { return engine() % n; };
  static const std::vector<std::string> kModes = {"ROUND", "CEIL",    "FLOOR",    "UP",
                                                  "DOWN",  "HALF_UP", "HALF_DOWN"};
  for (int round = 0; round < 300; ++round) {
    Quantizer quantizer{.zero = static_cast<float>(below(3) == 0 ? static_cast<int>(below(9)) - 4 : 0),
                        .bits = static_cast<float>(2 + below(7)),
                        .is_signed = below(2) == 0,
                        .narrow = below(2) == 0,
                        .mode = kModes[below(7)]};
    quantizer.scales.clear();
    for (unsigned i = 1 + below(3); i > 0; --i) {
      const float power = std::ldexp(1.0F, static_cast<int>(below(40)) - 20);
      quantizer.scales.push_back(below(2) == 0 ? power
                                               : power * (1 + static_cast<float>(below(1000)) / 1000));
    }
    CAPTURE(quantizer.mode);
    const Graph graph = graph_of(quantizer);
    const Subject subject(graph, Profile::kFinn);
    const auto found = exact_thresholds(subject, graph.nodes[0]);
    REQUIRE(found);
    REQUIRE(found->rows == quantizer.scales.size());
    CHECK(std::ranges::equal(found->scales, quantizer.scales));
    CHECK(found->high == found->low + static_cast<float>(found->count()));
    for (std::size_t row = 0; row < found->rows; ++row) {
      const float scale = quantizer.scales[row];
      std::vector<float> values{0, -0.0F, INFINITY, -INFINITY, 3.4e38F, -3.4e38F, 1e-45F, -1e-45F};
      for (int i = 0; i < 40; ++i) {
        const float half = (static_cast<float>(below(1200)) - 600) / 2 * scale;  // codes and ties
        for (const float value : {half, std::nextafter(half, INFINITY), std::nextafter(half, -INFINITY)})
          values.push_back(value);
      }
      for (const float value : values) {
        CAPTURE(value);
        CHECK(counted(*found, row, value) == code_of(quantizer, scale, value));
      }
    }
  }
}

TEST_CASE("thresholds: between steps the codes of multiples stay, with room on both sides") {
  std::mt19937 engine(6);
  for (int round = 0; round < 200; ++round) {
    const int exponent = -static_cast<int>(engine() % 10);
    Quantizer quantizer{.scales = {std::ldexp(1.0F, exponent + static_cast<int>(engine() % 5))},
                        .bits = static_cast<float>(2 + engine() % 5)};
    const Graph graph = graph_of(quantizer);
    const Subject subject(graph, Profile::kFinn);
    const Thresholds exact = *exact_thresholds(subject, graph.nodes[0]),
                     moved = between_steps(exact, exponent);
    const double step = std::ldexp(1.0, exponent);
    for (int i = -300; i < 300; ++i) {
      const auto value = static_cast<float>(i * step);
      CHECK(counted(moved, 0, value) == counted(exact, 0, value));
    }
    for (const float threshold : moved.values) {
      const double steps = threshold / step;
      CHECK(steps - std::floor(steps) == 0.5);
    }
    // FINN's go up at ties: they lie on a step where a tie does.
    const Thresholds theirs = finn_thresholds(exact);
    for (std::size_t i = 0; i < theirs.values.size(); ++i)
      CHECK(theirs.values[i] == (exact.low + static_cast<float>(i) + 0.5F) * quantizer.scales[0]);
  }
}

TEST_CASE("thresholds: from 2^22 steps on they stay where they are") {
  for (const int exponent : {-9, 0, 3}) {
    for (const double steps : {0x1p21, 0x1p22 - 1, 0x1p22, 0x1p22 + 1, 0x1p23}) {
      for (const double signed_steps : {steps, -steps}) {
        CAPTURE(signed_steps);
        const auto value = static_cast<float>(std::ldexp(signed_steps, exponent));
        const Thresholds moved =
            between_steps({.values = {value}, .rows = 1, .low = 0, .high = 1, .scales = {1}}, exponent);
        const double half = steps < 0x1p22 ? 0.5 : 0;
        CHECK(static_cast<double>(moved.values[0]) == std::ldexp(signed_steps - half, exponent));
      }
    }
  }
}

TEST_CASE("thresholds: what has none") {
  const auto found = [](const Quantizer& quantizer) {
    const Graph graph = graph_of(quantizer);
    return exact_thresholds(Subject(graph, Profile::kFinn), graph.nodes[0]).has_value();
  };
  CHECK(found({}));
  CHECK(found({.bits = 8}));
  CHECK_FALSE(found({.bits = 9}));
  CHECK_FALSE(found({.bits = 2.5F}));
  CHECK_FALSE(found({.bits = 1}));
  CHECK(found({.bits = 1, .is_signed = false}));
  CHECK_FALSE(found({.scales = {-1}}));
  CHECK_FALSE(found({.scales = {0}}));
  CHECK_FALSE(found({.scales = {INFINITY}}));
  CHECK_FALSE(found({.zero = 0.5F}));
  CHECK_FALSE(found({.mode = "SIDEWAYS"}));
  Graph graph = graph_of({.scales = {1, 2}});
  graph.values["x"].shape = Shape{{1}, {2}, {2}, {2}};  // the scales are on axis 2 now
  CHECK_FALSE(exact_thresholds(Subject(graph, Profile::kFinn), graph.nodes[0]));
  graph.values["x"].shape.reset();
  CHECK(exact_thresholds(Subject(graph, Profile::kFinn), graph.nodes[0]));  // by its own three axes
}

TEST_CASE("lattice: the powers of two that values are multiples of") {
  Graph graph = graph_of({.scales = {0.5F, 0.125F}});
  const auto add = [&](const char* op, std::vector<std::string> inputs, const char* output) {
    graph.nodes.push_back({.name = output, .op = op, .inputs = std::move(inputs), .outputs = {output}});
  };
  graph.initializers.emplace("w", Tensor::floats({2}, {{0.75F, -2}}));
  graph.initializers.emplace("zeros", Tensor::floats({2}, {{0, 0}}));
  graph.initializers.emplace("big", Tensor::floats({}, {{16}}));
  add("Relu", {"y"}, "r");
  add("Mul", {"r", "w"}, "m");
  add("Add", {"m", "zeros"}, "a");
  add("Add", {"m", "big"}, "b");
  add("Mul", {"m", "big"}, "c");
  add("Sigmoid", {"m"}, "s");
  add("Concat", {"c", "r"}, "d");
  add("Add", {"x", "r"}, "e");
  const auto found = lattice_of(graph);
  CHECK(found.at("y") == -3);
  CHECK(found.at("r") == -3);
  CHECK(found.at("m") == -5);
  CHECK(found.at("a") == -5);
  CHECK(found.at("b") == -5);
  CHECK(found.at("c") == -1);
  CHECK(found.at("d") == -3);
  for (const char* unknown : {"x", "s", "e"}) CHECK_FALSE(found.contains(unknown));
  graph.values["x"].annotations["finn_datatype"] = "UINT8";
  CHECK(lattice_of(graph).at("e") == -3);
  CHECK_FALSE(lattice_of(graph_of({.scales = {0.3F}})).contains("y"));
  CHECK_FALSE(lattice_of(graph_of({.zero = 0.5F})).contains("y"));
}

}  // namespace
}  // namespace crumb::exporting
