// What is said to differ between the quantizers that were meant and those of a file: everything that makes another
// number, and nothing that does not.
#include "export/read_back.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/facts/lift_quantized.h"
#include "graph/qonnx/quantized_constants.h"
#include "tests/graph/node_builder.h"

namespace crumb::exporting {
namespace {

using graph::Attribute;
using graph::Graph;
using graph::Tensor;

/// Two quantizers of an input, one of a constant with a scale for each row, and thresholds.
Graph sample() {
  graph::NodeBuilder net;
  const std::string x = net.quant(net.input("x", {1, 3}), Tensor::scalar(0.5F), 0, 4);
  net.quant(x, Tensor::floats({3}, std::vector<float>{0.25F, 0.25F, 0.25F}), 0, 3, false);
  const std::string w = net.constant("w", Tensor::floats({2, 3}, std::vector<float>{1, 2, 3, -1, 0, 2}));
  net.quant(w, Tensor::floats({2, 1}, std::vector<float>{1, 0.5F}), 0, 4, true, true);
  net.node("MultiThreshold", {x, net.constant("t", Tensor::floats({1, 2}, std::vector<float>{0.5F, 1.5F}))},
           {{"out_scale", 0.5F}, {"out_bias", -1.0F}}, graph::kQonnxDomain);
  return net.graph;
}

/// What is said of the sample after a change; empty where nothing is.
std::string said(const std::function<void(Graph&)>& change) {
  Graph graph = sample();
  change(graph);
  const auto meant = meanings_of(sample()), found = meanings_of(graph);
  std::string text;
  for (const bool in_order : {true, false}) {
    std::string now;
    try {
      expect_same(meant, found, in_order);
    } catch (const Error& error) {
      now = error.what();
    }
    if (in_order) text = now;
    CHECK(now.empty() == text.empty());
  }
  return text;
}

std::string with_number(const std::string& constant, std::size_t at, float value) {
  return said([&](Graph& graph) {
    const Tensor& before = graph.initializers.at(constant);
    std::vector<float> values = before.to_floats();
    values.at(at) = value;
    graph.initializers.at(constant) = Tensor::floats(before.shape(), values);
  });
}

std::string with_attribute(std::size_t node, const std::string& key, Attribute value) {
  return said([&](Graph& graph) { graph.nodes.at(node).attributes[key] = std::move(value); });
}

bool tells(const std::string& text, const char* part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos &&
         text.find("does not mean in the file what was meant") != std::string::npos;
}

TEST_CASE("read back: what makes other numbers is named") {
  CHECK(said([](Graph&) {}).empty());
  CHECK(tells(with_number("s0", 0, 1), "input 1: element 0 is 1, expected 0.5"));
  CHECK(tells(with_number("z0", 0, 1), "input 2: element 0 is 1, expected 0"));
  CHECK(tells(with_number("b0", 0, 5), "input 3: element 0 is 5, expected 4"));
  CHECK(tells(with_number("s1", 1, 1), "3 elements, expected 1"));
  CHECK(tells(with_number("s2", 1, 0.25F), "integers"));
  CHECK(tells(with_number("w", 4, 3), "element 4 is 6, expected 0"));
  CHECK(tells(with_number("t", 1, 2), "element 1 is 2, expected 1.5"));
  CHECK(tells(with_attribute(0, "signed", std::int64_t{0}), "signed or narrow differ"));
  CHECK(tells(with_attribute(0, "narrow", std::int64_t{1}), "signed or narrow differ"));
  CHECK(tells(with_attribute(0, "rounding_mode", std::string("CEIL")),
              "rounding_mode is CEIL, expected ROUND"));
  CHECK(tells(with_attribute(3, "out_scale", 1.0F), "element 0 is 1, expected 0.5"));
  CHECK(tells(with_attribute(3, "out_bias", 0.0F), "element 1 is 0, expected -1"));
  CHECK(tells(said([](Graph& graph) { graph.nodes[0].op = "Trunc"; }), "it is a Trunc, expected a Quant"));
  CHECK(tells(said([](Graph& graph) { graph.nodes[2].inputs[0] = "x"; }), "it quantizes no constant"));
  CHECK(tells(said([](Graph& graph) { graph.nodes[1].inputs[0] = "w"; }), "it quantizes a constant"));
  CHECK(said([](Graph& graph) { graph.nodes.pop_back(); }) == "the file has 3 quantizers, expected 4");
}

TEST_CASE("read back: spellings of the same are the same") {
  for (const char* mode : {"ROUND", "round", "Round", "HALF_EVEN", "half_even", "Half_Even"})
    CHECK(with_attribute(0, "rounding_mode", std::string(mode)).empty());
  CHECK(said([](Graph& graph) {
          for (graph::Node& node : graph.nodes)
            if (node.op == "Quant") node.op = "IntQuant";
        }).empty());
  CHECK(said([](Graph& graph) {  // one number for all, or as many as there are
          graph.initializers["s1"] = Tensor::scalar(0.25F);
        })
            .empty());
  CHECK(said([](Graph& graph) {
          graph.nodes[0].attributes.erase("rounding_mode");
          graph.nodes[0].attributes.erase("narrow");
          graph.nodes[0].attributes.erase("signed");
        }).empty());
}

TEST_CASE("read back: without an order, each is like one of the others") {
  const auto meant = meanings_of(sample());
  auto found = meant;
  std::reverse(found.begin(), found.end());
  CHECK_NOTHROW(expect_same(meant, found, false));
  CHECK_THROWS_AS(expect_same(meant, found, true), Error);
  found[0] = found[1];  // twice the same: one of those that were meant is gone
  CHECK_THROWS_AS(expect_same(meant, found, false), Error);
}

using Dims = std::vector<std::int64_t>;

/// A marked graph of one quantizer of a constant; `scale` 1 keeps whole numbers.
Graph constant_of(const Dims& shape, const std::vector<float>& values, float bits = 8) {
  graph::NodeBuilder net;
  net.quant(net.constant("w", Tensor::floats(shape, values)), Tensor::scalar(1.0F), 0, bits);
  return marked(net.graph);
}

bool are_same(const Graph& before, const Graph& after) {
  try {
    expect_same_constants(before, after);
    return true;
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("its values are not those of") != std::string::npos);
    return false;
  }
}

std::vector<float> counted(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return values;
}

TEST_CASE(
    "read back: a constant may be laid out in another order of axes, or of a matrix's rows, and no other") {
  const std::vector<float> six = counted(6);
  const Graph before = constant_of({2, 3}, six);
  CHECK(are_same(before, before));
  CHECK(are_same(before, constant_of({3, 2}, {0, 3, 1, 4, 2, 5})));  // transposed
  CHECK(are_same(before, constant_of({2, 3}, {3, 4, 5, 0, 1, 2})));  // rows
  CHECK(are_same(before, constant_of({3, 2}, {2, 5, 0, 3, 1, 4})));  // transposed, and then rows
  CHECK(are_same(before, constant_of({6}, six)));                    // another number of axes
  CHECK(are_same(before, constant_of({1, 2, 3}, six)));
  CHECK_FALSE(are_same(before, constant_of({3, 2}, six)));
  CHECK_FALSE(are_same(before, constant_of({2, 3}, {0, 1, 2, 3, 4, 6})));
  CHECK_FALSE(are_same(before, constant_of({2, 3}, {1, 0, 2, 3, 4, 5})));
  CHECK_FALSE(are_same(before, constant_of({6}, {1, 0, 2, 3, 4, 5})));
  CHECK_FALSE(are_same(before, constant_of({2, 2}, {0, 1, 2, 3})));
  CHECK_FALSE(are_same(before, constant_of({2, 4}, {0, 1, 2, 3, 4, 5, 0, 0})));
  // Rows of three axes are not looked for; of as many as six axes every order is, of seven none.
  CHECK_FALSE(are_same(constant_of({2, 1, 3}, six), constant_of({2, 1, 3}, {3, 4, 5, 0, 1, 2})));
  for (const std::size_t rank : {3u, 5u, 6u, 7u}) {
    Dims shape(rank, 1), turned(rank, 1);
    shape[0] = turned[rank - 1] = 2;
    shape[rank - 1] = turned[0] = 3;
    CHECK(are_same(constant_of(shape, six), constant_of(turned, {0, 3, 1, 4, 2, 5})) == (rank <= 6));
  }
  // Numbers that are none are the same as such.
  const float nan = std::nanf("");
  CHECK(are_same(constant_of({2}, {nan, 1}), constant_of({2}, {nan, 1})));
  CHECK_FALSE(are_same(constant_of({2}, {nan, 1}), constant_of({2}, {1, nan})));
  CHECK_FALSE(are_same(constant_of({2}, {nan, 1}), constant_of({2}, {0, 1})));
}

TEST_CASE("read back: marks tell which constant is which, and go again") {
  graph::NodeBuilder net;
  const std::string v = net.constant("v", Tensor::floats({2}, std::vector<float>{1, 2})),
                    w = net.constant("w", Tensor::floats({2}, std::vector<float>{3, 4}));
  net.quant(v, Tensor::scalar(1.0F), 0, 8);
  net.quant(w, Tensor::scalar(1.0F), 0, 8);
  net.quant(net.input("x", {2}), Tensor::scalar(1.0F), 0, 8);
  net.node("Relu", {"x"});
  const Graph before = marked(net.graph);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(before.nodes[i].attributes.size() == net.graph.nodes[i].attributes.size() + (i < 3 ? 1 : 0));
  const Graph plain = unmarked(before);
  for (std::size_t i = 0; i < 4; ++i) CHECK(plain.nodes[i].attributes == net.graph.nodes[i].attributes);

  const auto changed = [&](const std::function<void(Graph&)>& change) {
    Graph after = before;
    change(after);
    return are_same(before, after);
  };
  CHECK(changed([](Graph&) {}));
  CHECK(changed([](Graph& graph) { std::swap(graph.nodes[0], graph.nodes[1]); }));
  CHECK_FALSE(changed([](Graph& graph) { std::swap(graph.nodes[0].inputs, graph.nodes[1].inputs); }));
  CHECK_FALSE(changed([](Graph& graph) { graph.nodes[1].inputs[0] = "v"; }));
  CHECK_FALSE(changed([](Graph& graph) { graph.nodes[0].inputs[0] = "x"; }));  // no constant any more
  CHECK(changed([](Graph& graph) { graph.nodes[2].inputs[0] = "v"; }));        // what was none before
  CHECK(changed([](Graph& graph) {  // what has no mark, or is no quantizer, is not looked at
    graph = unmarked(std::move(graph));
    graph.nodes[0].inputs[0] = "w";
  }));
  CHECK(changed([](Graph& graph) { graph.nodes.erase(graph.nodes.begin()); }));
}

TEST_CASE("read back: constants kept as codes have their codes and values in the lowered graph") {
  graph::NodeBuilder net;
  const std::string w = net.constant("w", Tensor::floats({2, 3}, std::vector<float>{1, 2, 3, -1, 0, 2}));
  const std::string y = net.quant(w, Tensor::floats({2, 1}, std::vector<float>{1, 0.5F}), 0, 4, true, true);
  net.graph.outputs = {net.node("MatMul", {net.input("x", {1, 2}), y})};
  const Graph kept = graph::lift_quantized(net.graph);
  REQUIRE(kept.quantized.size() == 1);
  const Graph lowered = graph::lower_quantized(kept);
  CHECK_NOTHROW(expect_same_codes(kept, lowered));
  const auto quantizer = std::ranges::find(lowered.nodes, std::string("Quant"), &graph::Node::op);
  REQUIRE(quantizer != lowered.nodes.end());
  const auto said_of = [&](std::size_t input, const std::function<void(std::vector<float>&)>& change) {
    Graph wrong = lowered;
    Tensor& tensor = wrong.initializers.at(quantizer->inputs[input]);
    std::vector<float> values = tensor.to_floats();
    change(values);
    tensor = Tensor::floats(tensor.shape(), values);
    try {
      expect_same_codes(kept, wrong);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(said_of(0, [](auto&) {}) == "");
  CHECK(tells(said_of(0, [](auto& values) { values[1] = 3; }), "values: element 1 is 3, expected 2"));
  CHECK(tells(said_of(0, [](auto& values) { values[5] = 1; }), "values: element 5 is 1, expected 2"));
  CHECK(
      tells(said_of(1, [](auto& values) { values[1] = 0.25F; }), "values: element 5"));  // 7 quarters at most
  // The same values out of other codes.
  CHECK(tells(said_of(1, [](auto& values) { values[0] = 0.5F; }), "codes: element 0 is 2, expected 1"));
  Graph without = lowered;
  without.nodes.clear();
  CHECK_THROWS_WITH_AS(expect_same_codes(kept, without), doctest::Contains("its value cannot be computed"),
                       Error);
}

}  // namespace
}  // namespace crumb::exporting
