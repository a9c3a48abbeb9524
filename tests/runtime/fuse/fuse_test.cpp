// Nodes that are computed together have the bits of the nodes one by one, whatever their graph and shapes.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "runtime/fuse/regions.h"
#include "runtime/lower/domain.h"
#include "runtime/model.h"
#include "tests/support/number_bits.h"
#include "tests/support/samples.h"

using crumb::graph::ElementType;
using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::Tensor;
using crumb::runtime::Array;
using crumb::runtime::Computes;
using crumb::runtime::Ints;
using crumb::runtime::Model;

namespace {

Node node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
  return {.name = "n_" + output, .op = op, .version = 13, .inputs = inputs, .outputs = {output}};
}

Node code_node(std::mt19937_64& engine, const char* op, const std::string& input, const std::string& output) {
  Node made = node(op, {input}, output);
  made.domain = crumb::runtime::kRuntimeDomain;
  const bool is_signed = engine() % 2 == 0, bipolar = is_signed && engine() % 4 == 0;
  const std::int64_t low = is_signed ? -static_cast<std::int64_t>(engine() % 129) : 0;
  made.attributes["scale"] =
      std::ldexp(1.0F + static_cast<float>(engine() % 100) / 100, static_cast<int>(engine() % 12) - 8);
  made.attributes["zero"] = static_cast<std::int64_t>(engine() % 255) - 127;
  made.attributes["low"] = bipolar ? -1 : low;
  made.attributes["high"] = bipolar ? 1 : low + static_cast<std::int64_t>(engine() % 128);
  made.attributes["bipolar"] = std::int64_t{bipolar};
  made.attributes["type"] =
      std::int64_t{crumb::graph::onnx_number(is_signed ? ElementType::kInt8 : ElementType::kUint8)};
  return made;
}

/// A graph of elementwise nodes over inputs of shapes that broadcast, with its inputs.
struct Drawn {
  Graph graph;
  std::vector<Array> inputs;

  /// Codes as an input, and their values.
  void add_of_codes(std::mt19937_64& engine, const Ints& shape, std::vector<std::string>& values) {
    const bool is_signed = engine() % 2 == 0;
    Array codes(is_signed ? ElementType::kInt8 : ElementType::kUint8, shape);
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes.writable_data()[i] = static_cast<std::byte>(engine());
    graph.inputs.push_back("codes");
    inputs.push_back(codes);
    graph.nodes.push_back(code_node(engine, "Values", "codes", "v" + std::to_string(values.size())));
    values.push_back(graph.nodes.back().outputs[0]);
  }

  /// Clip with limits as attributes, as constants, as a computed number or, rarely, as a value of the graph.
  Node clip_node(std::mt19937_64& engine, const std::string& input, const std::string& made) {
    Node clip = node("Clip", {input}, made);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    if (below(3) == 0) {
      clip.version = 6;
      if (below(2) == 0) clip.attributes["min"] = -0.5F;
      if (below(2) == 0) clip.attributes["max"] = 0.75F;
      return clip;
    }
    for (const float limit : {-0.5F, 0.75F}) {
      if (below(5) == 0) break;
      const std::string name = made + "_" + std::to_string(clip.inputs.size());
      if (below(6) == 0) {
        graph.inputs.push_back(name + "_negated");
        inputs.push_back(Array::of(Tensor::floats({}, std::vector<float>{-limit})));
        graph.nodes.push_back(node("Neg", {name + "_negated"}, name));
      } else {
        graph.initializers[name] =
            Tensor::floats(below(2) == 0 ? Ints{} : Ints{1}, std::vector<float>{limit});
      }
      clip.inputs.push_back(name);
    }
    return clip;
  }

  explicit Drawn(std::mt19937_64& engine) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    constexpr const char* kTwo[] = {"Add", "Sub", "Mul", "Div", "Max"};
    constexpr const char* kOne[] = {"Relu",    "LeakyRelu", "Neg",         "Abs",      "Reciprocal",
                                    "Sqrt",    "Exp",       "Log",         "Tanh",     "Erf",
                                    "Sigmoid", "Softplus",  "HardSigmoid", "HardSwish"};
    Ints whole;
    const std::size_t rank = below(4);
    for (std::size_t i = 0; i < rank; ++i) {
      const std::size_t size = below(16) == 0                   ? 0
                               : i + 1 == rank && below(6) == 0 ? 1000 + below(100)
                                                                : 1 + below(20);
      whole.push_back(static_cast<std::int64_t>(size));
    }
    std::vector<std::string> values;
    const auto add = [&](const Ints& shape, bool is_constant) {
      std::size_t count = 1;
      for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
      const Tensor tensor = Tensor::floats(shape, crumb::testing::normal_values(count, engine()));
      const std::string name = "v" + std::to_string(values.size());
      if (is_constant) {
        graph.initializers[name] = tensor;
      } else {
        graph.inputs.push_back(name);
        inputs.push_back(Array::of(tensor));
      }
      values.push_back(name);
    };
    add(whole, false);
    if (below(2) == 0)
      add_of_codes(engine, below(8) == 0 && !whole.empty() ? Ints{whole.back()} : whole, values);
    for (std::size_t i = below(5); i > 0; --i) {
      Ints shape = whole;
      switch (below(6)) {
        case 0: shape = {}; break;
        case 4:  // a number for each channel
          for (std::size_t axis = 0, kept = below(shape.size() + 1); axis < shape.size(); ++axis)
            if (axis != kept && below(4) != 0) shape[axis] = 1;
          break;
        case 1:
          if (!shape.empty()) shape = {shape.back()};
          break;
        case 2:
          for (std::int64_t& size : shape) size = below(2) == 0 ? 1 : size;
          break;
        default: break;
      }
      add(shape, below(2) == 0);
    }
    for (std::size_t i = 2 + below(12); i > 0; --i) {
      const std::string made = "v" + std::to_string(values.size());
      const auto operand = [&] {
        return values[values.size() - 1 - below(std::min<std::size_t>(values.size(), 4))];
      };
      if (below(2) == 0) {
        graph.nodes.push_back(node(kTwo[below(std::size(kTwo))], {operand(), operand()}, made));
      } else if (below(5) == 0) {
        graph.nodes.push_back(clip_node(engine, operand(), made));
      } else if (below(8) == 0) {
        graph.nodes.push_back(code_node(engine, "Quantized", operand(), made));
      } else {
        graph.nodes.push_back(node(kOne[below(std::size(kOne))], {operand()}, made));
      }
      values.push_back(made);
    }
    if (below(2) == 0) {
      const std::string made = "v" + std::to_string(values.size());
      graph.nodes.push_back(code_node(engine, "Codes", values.back(), made));
      values.push_back(made);
    }
    graph.outputs.push_back(values.back());
    if (below(3) == 0) graph.outputs.push_back(values[values.size() - 2]);
  }
};

std::vector<std::uint32_t> bits_of(const Array& array) {
  if (array.type() == ElementType::kFloat) return crumb::testing::number_bits(array.values<float>());
  std::vector<std::uint32_t> bits;
  for (std::size_t i = 0; i < array.size(); ++i)
    bits.push_back(std::to_integer<std::uint32_t>(array.data()[i]));
  return bits;
}

}  // namespace

TEST_CASE("fuse: drawn graphs have the bits of their nodes one by one, with any number of threads") {
  std::mt19937_64 engine(11);
  std::size_t fused = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const Drawn drawn(engine);
    fused +=
        crumb::runtime::regions_of(drawn.graph, std::vector<bool>(drawn.graph.nodes.size(), true)).size();
    const std::vector<Array> expected =
        Model(drawn.graph, Computes::kFloats).run(drawn.inputs, {.threads = 1});
    const Model model(drawn.graph);
    for (const int threads : {1, 3}) {
      const std::vector<Array> found = model.run(drawn.inputs, {.threads = threads});
      for (std::size_t i = 0; i < expected.size(); ++i) {
        REQUIRE(found[i].shape() == expected[i].shape());
        REQUIRE(found[i].type() == expected[i].type());
        REQUIRE(bits_of(found[i]) == bits_of(expected[i]));
      }
    }
  }
  CHECK(fused > 1000);
}

TEST_CASE(
    "fuse: codes that a node of the region would have to make, and bytes taken as codes and as numbers") {
  std::mt19937_64 engine(12);
  Array x(ElementType::kInt8, {3});
  std::ranges::copy(std::vector<std::int8_t>{-1, 0, 100}, x.writable<std::int8_t>().begin());
  Graph graph;
  graph.inputs = {"x"};
  graph.nodes = {node("Abs", {"x"}, "a"), code_node(engine, "Values", "a", "b"), node("Neg", {"b"}, "y")};
  graph.outputs = {"y"};
  const auto expected = Model(graph, Computes::kFloats).run({x}, {});
  CHECK(bits_of(Model(graph).run({x}, {})[0]) == bits_of(expected[0]));
  graph.nodes = {code_node(engine, "Values", "x", "a"), node("Neg", {"a"}, "b"),
                 node("Mul", {"b", "x"}, "y")};
  CHECK_THROWS_AS(Model(graph, Computes::kFloats).run({x}, {}), crumb::Error);
  CHECK_THROWS_AS(Model(graph).run({x}, {}), crumb::Error);
}

TEST_CASE("fuse: shapes of nothing broadcast, too") {
  Graph graph;
  graph.inputs = {"x", "y"};
  graph.nodes = {node("Exp", {"x"}, "a"), node("Mul", {"a", "y"}, "b")};
  graph.outputs = {"b"};
  const auto nothing = [](const Ints& shape) {
    return Array::of(Tensor::floats(shape, std::vector<float>()));
  };
  const Model model(graph);
  CHECK(model.run({nothing({1, 0}), nothing({3, 0})}, {})[0].shape() == Ints{3, 0});
  CHECK(model.run({nothing({3, 0}), nothing({0})}, {})[0].shape() == Ints{3, 0});
  CHECK(model.run({Array::of(Tensor::scalar(1.0F)), nothing({2, 0})}, {})[0].shape() == Ints{2, 0});
}

TEST_CASE("fuse: a region ends where somebody else takes a value, and where it is an output") {
  Graph graph;
  graph.inputs = {"x"};
  graph.nodes = {node("Exp", {"x"}, "a"), node("Neg", {"a"}, "b"), node("Abs", {"b"}, "c"),
                 node("Softmax", {"a"}, "d")};
  graph.outputs = {"c", "d"};
  const std::vector<bool> all(4, true);
  CHECK(crumb::runtime::regions_of(graph, all) == std::vector<std::vector<std::size_t>>{{1, 2}});
  graph.outputs = {"c", "b", "d"};
  CHECK(crumb::runtime::regions_of(graph, all).empty());
  // Both consumers are inside: x * sigmoid(x).
  graph.nodes = {node("Exp", {"x"}, "a"), node("Sigmoid", {"a"}, "b"), node("Mul", {"a", "b"}, "c")};
  graph.outputs = {"c"};
  CHECK(crumb::runtime::regions_of(graph, {true, true, true}) ==
        std::vector<std::vector<std::size_t>>{{0, 1, 2}});
  CHECK(crumb::runtime::regions_of(graph, {false, true, true}) ==
        std::vector<std::vector<std::size_t>>{{1, 2}});
}

TEST_CASE("fuse: an operand that does not broadcast is refused by its node's name") {
  Graph graph;
  graph.inputs = {"x", "y"};
  graph.nodes = {node("Exp", {"x"}, "a"), node("Mul", {"a", "y"}, "b"), node("Neg", {"b"}, "c")};
  graph.outputs = {"c"};
  const auto floats = [](std::int64_t count) {
    return Array::of(Tensor::floats({count}, std::vector<float>(static_cast<std::size_t>(count), 1)));
  };
  CHECK_THROWS_WITH_AS(Model(graph).run({floats(3), floats(2)}, {}), doctest::Contains("node 'n_b' (Mul)"),
                       crumb::Error);
}

TEST_CASE("a node that has a substitute is computed by it, and not with its neighbours") {
  Graph graph;
  graph.inputs = {"x"};
  graph.outputs = {"d"};
  graph.nodes = {node("Add", {"x", "x"}, "a"), node("Neg", {"a"}, "b"), node("Mul", {"b", "x"}, "c"),
                 node("Abs", {"c"}, "d")};
  const auto as_it_is = [](crumb::runtime::Call& call) { call.give(0, call.in(0)); };
  const Model model(graph, Computes::kIntegers, {{"b", as_it_is}, {"d", as_it_is}});
  const Tensor x = Tensor::floats({2}, std::vector<float>{3, -1});
  CHECK(model.run({Array::of(x)}, {})[0].tensor().to_floats() == std::vector<float>{18, 2});
  Graph falls = graph;
  falls.nodes[2].inputs[1] = "a";
  falls.nodes[2].op = "Sub";
  const Model both(falls, Computes::kIntegers, {{"b", [](crumb::runtime::Call& call) {
                                                   auto& made =
                                                       call.make(0, call.in(0).type(), call.in(0).shape());
                                                   std::ranges::fill(made.writable<float>(), 1.0F);
                                                 }}});
  CHECK(both.run({Array::of(x)}, {})[0].tensor().to_floats() == std::vector<float>{5, 3});
}
