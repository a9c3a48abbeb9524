// What is said to differ between the quantizers that were meant and those of a file: everything that makes another
// number, and nothing that does not.
#include "export/read_back.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
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

}  // namespace
}  // namespace crumb::exporting
