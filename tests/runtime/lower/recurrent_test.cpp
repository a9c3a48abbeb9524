// LSTM, GRU and RNN of coded weights: their inputs' products are nodes in front, of integers where the inputs
// are codes, and the weights of the state stay packed. Scales are powers of two, so that floats are exact.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "runtime/lower/lower.h"
#include "runtime/model.h"
#include "tests/graph/node_builder.h"

namespace crumb::runtime {
namespace {

using graph::NodeBuilder;
using graph::Tensor;

struct RecurrentKind {
  const char* op;
  std::int64_t gates;
  std::size_t states;
};
constexpr RecurrentKind kKinds[] = {{"LSTM", 4, 2}, {"GRU", 3, 1}, {"RNN", 1, 1}};

/// A node of drawn sizes, with a quantizer in front or without.
struct DrawnRecurrent {
  NodeBuilder builder;
  std::vector<Array> inputs;
  bool is_quantized = false;
  std::int64_t directions = 1;

  explicit DrawnRecurrent(std::mt19937_64& engine) : engine_(engine) {
    builder.graph.opsets[""] = 17;
    const RecurrentKind& kind = kKinds[below(3)];
    const std::int64_t time = 1 + below(12), batch = 1 + below(6), terms = 1 + below(20),
                       hidden = 1 + below(20);
    const std::int64_t layout = below(3) == 0 ? 1 : 0;
    directions = below(3) == 0 ? 2 : 1;
    std::string x =
        given("x", layout == 1 ? std::vector{batch, time, terms} : std::vector{time, batch, terms});
    is_quantized = below(3) != 0;
    if (is_quantized)
      x = builder.quant(x, Tensor::scalar(0.25F), static_cast<float>(below(4)), 6, below(2) == 0, false);
    const std::int64_t width = kind.gates * hidden;
    std::vector<std::string> names{x, weight("w", {directions, width, terms}, !is_quantized),
                                   weight("r", {directions, width, hidden}, true)};
    names.push_back(below(2) == 0 ? builder.constant("b", numbers({directions, 2 * width})) : "");
    const bool has_lengths = below(3) == 0, has_state = below(2) == 0;
    names.push_back(has_lengths ? lengths(batch, time) : "");
    const std::vector<std::int64_t> state =
        layout == 1 ? std::vector{batch, directions, hidden} : std::vector{directions, batch, hidden};
    names.push_back(has_state ? given("h", state) : "");
    if (kind.states == 2 && has_state) names.push_back(given("c", state));
    while (names.back().empty()) names.pop_back();
    std::map<std::string, graph::Attribute> attributes{{"hidden_size", hidden}, {"layout", layout}};
    attributes["direction"] = std::string(directions == 2 ? "bidirectional"
                                          : below(2) == 0 ? "forward"
                                                          : "reverse");
    if (kind.gates == 3) attributes["linear_before_reset"] = std::int64_t{below(2)};
    builder.node(kind.op, names, attributes);
    graph::Node& node = builder.graph.nodes.back();
    node.outputs.push_back("last");
    builder.graph.outputs = node.outputs;
    for (graph::Node& each : builder.graph.nodes)
      if (each.domain.empty()) each.version = 14;
  }

 private:
  std::int64_t below(int n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }

  /// Whole numbers of quarters, at most four.
  Tensor numbers(const std::vector<std::int64_t>& shape) {
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).value()));
    for (float& v : values) v = static_cast<float>(below(33) - 16) / 4;
    return Tensor::floats(shape, values);
  }

  std::string given(const std::string& name, const std::vector<std::int64_t>& shape) {
    inputs.push_back(Array::of(numbers(shape)));
    return builder.input(name, shape);
  }

  std::string lengths(std::int64_t batch, std::int64_t time) {
    std::vector<std::int32_t> each(static_cast<std::size_t>(batch));
    for (std::int32_t& length : each) length = static_cast<std::int32_t>(below(static_cast<int>(time) + 1));
    const auto bytes = std::as_bytes(std::span(each));
    return builder.constant("lengths", {graph::ElementType::kInt32, {batch}, {bytes.begin(), bytes.end()}});
  }

  /// `may_have_groups`: with several scales in a row, where floats are multiplied in any case.
  std::string weight(const std::string& name, const std::vector<std::int64_t>& shape, bool may_have_groups) {
    const std::array specs = {"int4:channel:scale=e8m0", "int8:channel:scale=e8m0",
                              "int2h:channel:scale=e8m0", "int4:group=4:pad:scale=e8m0"};
    const char* const spec =
        specs[static_cast<std::size_t>(below(may_have_groups && directions == 1 ? 4 : 3))];
    builder.graph.quantized[name] =
        graph::quantize_constant(QuantSpec::parse(spec), numbers(shape), 1, name, 1);
    builder.graph.values[name] = {.type = graph::ElementType::kFloat,
                                  .shape = graph::Shape(shape.begin(), shape.end())};
    return name;
  }

  std::mt19937_64& engine_;
};

}  // namespace

TEST_CASE("recurrent nodes of coded weights have the bits of their floats, by integers or by packed codes") {
  std::mt19937_64 engine(50);
  std::size_t integers = 0, packed = 0;
  for (int round = 0; round < 600; ++round) {
    CAPTURE(round);
    DrawnRecurrent drawn(engine);
    const graph::Graph& network = drawn.builder.graph;
    const Lowered lowered = lower(network);
    CHECK(lowered.integers.size() == (drawn.is_quantized ? 1 : 0));
    integers += lowered.integers.size();
    if (drawn.directions == 1) {
      CHECK(lowered.weights.decoded.empty());
      CHECK(lowered.weights.packed.size() == (drawn.is_quantized ? 1 : 2));
      packed += lowered.weights.packed.size();
    }
    const auto expected = Model(network, Computes::kFloats).run(drawn.inputs, {.threads = 1});
    const auto found = Model(network).run(drawn.inputs, {.threads = 1 + round % 3});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      REQUIRE(found[i].shape() == expected[i].shape());
      CHECK(std::ranges::equal(found[i].values<float>(), expected[i].values<float>()));
    }
  }
  CHECK(integers > 200);
  CHECK(packed > 300);
}

TEST_CASE("a recurrent node whose packed weights do not fit each other is an error that names it") {
  NodeBuilder builder;
  builder.graph.opsets[""] = 17;
  const auto coded = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const auto count = static_cast<std::size_t>(graph::count_elements(shape).value());
    builder.graph.quantized[name] = graph::quantize_constant(
        QuantSpec::parse("int4:channel"), Tensor::floats(shape, std::vector<float>(count, 0.5F)), 1, name, 1);
    return name;
  };
  const std::string x = builder.input("x", {2, 1, 4});
  builder.graph.outputs = {builder.node("LSTM", {x, coded("w", {1, 12, 4}), coded("r", {1, 8, 3})})};
  for (graph::Node& node : builder.graph.nodes) node.version = 14;
  const Array in = Array::of(Tensor::floats({2, 1, 4}, std::vector<float>(8, 1.0F)));
  CHECK_THROWS_WITH_AS(Model(builder.graph).run({in}, {.threads = 1}), doctest::Contains("R is [1, 8, 3]"),
                       Error);
}

}  // namespace crumb::runtime
