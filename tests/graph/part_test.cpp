// Parts of drawn graphs: what follows from the given values and nothing else, and every node in a part when the parts are one
// behind the other.
#include "graph/part.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "graph/buffers.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::Tensor;

/// Nodes of one or two inputs, each an earlier value or a constant.
Graph drawn(std::mt19937& draw) {
  crumb::graph::NodeBuilder made;
  std::vector<std::string> values;
  for (int i = 0; i < 3; ++i) values.push_back(made.input("in" + std::to_string(i), {2}));
  const auto count = 4 + draw() % 20;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string first = values[draw() % values.size()];
    if (draw() % 3 == 0) {
      values.push_back(made.node("Relu", {first}));
      continue;
    }
    const bool is_constant = draw() % 3 == 0;
    const std::string second = is_constant ? made.constant("c" + std::to_string(i), Tensor::scalar(1.0F))
                                           : values[draw() % values.size()];
    values.push_back(made.node("Add", {first, second}));
  }
  made.graph.outputs = {values.back()};
  return made.graph;
}

/// Of inputs and given values, those that a value depends on, by the definition.
std::set<std::string> sources(const Graph& graph, const std::string& value,
                              const std::set<std::string>& given, bool is_wanted) {
  if (!is_wanted && given.contains(value)) return {value};
  const auto node =
      std::ranges::find_if(graph.nodes, [&](const auto& one) { return one.outputs[0] == value; });
  if (node == graph.nodes.end()) {
    if (graph.constant(value)) return {};
    return {value};
  }
  std::set<std::string> all;
  for (const std::string& input : node->inputs) all.merge(sources(graph, input, given, false));
  return all;
}

Tensor pair(float first, float second) { return Tensor::floats({2}, std::vector{first, second}); }

struct Layered {
  Graph graph;
  std::vector<std::string> ends;
};

/// Layers that read the one before and whatever earlier ones made inside or out, a table that follows from a
/// weight, and a mask that follows from an input alone.
Layered drawn_layers(std::mt19937& draw) {
  crumb::graph::NodeBuilder made;
  int weights = 0;
  const auto weighed = [&](const char* op, const std::string& value) {
    const std::string name = "weight" + std::to_string(weights++);
    return made.node(op,
                     {value, made.constant(name, pair(1.5F, -0.5F - 0.1F * static_cast<float>(weights)))});
  };
  const std::string x = made.input("x", {2}), hidden = made.input("hidden", {2});
  const std::string half = made.constant("half", Tensor::scalar(0.5F));
  add_buffer(made.graph, "half");
  const std::string mask = made.node("Mul", {made.node("Relu", {hidden}), half});
  std::vector<std::string> inside{weighed("Add", x)};
  Layered network;
  std::string states = inside[0];
  for (std::size_t layer = 0, count = 1 + draw() % 7; layer < count; ++layer) {
    std::string value = states;
    for (std::size_t i = 0, nodes = 1 + draw() % 4; i < nodes; ++i) {
      const std::string other = draw() % 3 == 0 ? inside[draw() % inside.size()] : states;
      value = made.node("Add", {weighed("Mul", value), made.node("Tanh", {other})});
      if (draw() % 3 == 0) value = made.node("Sub", {value, mask});
      inside.push_back(value);
    }
    states = made.node("Add", {states, weighed("Mul", value)});
    inside.push_back(states);
    network.ends.push_back(states);
  }
  made.graph.outputs = {made.node("Tanh", {states}), inside[draw() % inside.size()]};
  network.graph = made.graph;
  return network;
}

TEST_CASE("a part takes what its values depend on, and has the nodes between") {
  std::mt19937 draw(11);
  for (int round = 0; round < 2000; ++round) {
    const Graph graph = drawn(draw);
    const std::string wanted = graph.nodes[draw() % graph.nodes.size()].outputs[0];
    std::vector<std::string> given;
    for (const auto& node : graph.nodes)
      if (node.outputs[0] != wanted && draw() % 4 == 0) given.push_back(node.outputs[0]);
    const Graph part = crumb::graph::part_of(graph, given, {wanted});
    const std::set<std::string> inputs(part.inputs.begin(), part.inputs.end());
    CHECK(inputs == sources(graph, wanted, {given.begin(), given.end()}, true));
    CHECK(inputs.size() == part.inputs.size());
    CHECK(part.outputs == std::vector{wanted});
    // Whole and in order: each input of a node is there before it.
    std::set<std::string> known = inputs;
    for (const auto& [name, constant] : part.initializers) known.insert(name);
    bool is_sound = true;
    for (const auto& node : part.nodes) {
      for (const std::string& input : node.inputs) is_sound = is_sound && known.contains(input);
      known.insert(node.outputs[0]);
    }
    CHECK(is_sound);
    CHECK(known.contains(wanted));
  }
  CHECK_THROWS_WITH_AS(crumb::graph::part_of(drawn(draw), {}, {"in0"}), doctest::Contains("'in0'"),
                       crumb::Error);
}

TEST_CASE(
    "a network that is cut behind its layers gives what it gives whole, whatever they read of each other") {
  std::mt19937 draw(12);
  const crumb::runtime::Engine engine(1);
  std::size_t skipping = 0;
  for (int round = 0; round < 300; ++round) {
    const Layered network = drawn_layers(draw);
    const std::vector<crumb::graph::CutPart> parts = crumb::graph::cut_behind(network.graph, network.ends);
    REQUIRE(parts.size() == network.ends.size());
    const std::vector<Tensor> inputs{pair(0.3F, -1.2F), pair(0.7F, -0.4F)};
    Graph whole = network.graph;
    whole.outputs = network.ends;
    const std::vector<Tensor> meant = engine.prepare(whole)->run(inputs);

    std::map<std::string, Tensor> values{{"x", inputs[0]}, {"hidden", inputs[1]}};
    std::map<std::string, int> weights;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Graph& part = parts[p].graph;
      std::vector<Tensor> given;
      for (const std::string& name : part.inputs) given.push_back(values.at(name));
      const std::vector<Tensor> made = engine.prepare(part)->run(given);
      CHECK(made[0] == meant[p]);
      CHECK(part.outputs[0] == network.ends[p]);
      skipping += part.outputs.size() - 1;
      for (const std::string& name : parts[p].last_read) CHECK(values.erase(name) == 1);
      for (std::size_t i = 0; i < made.size(); ++i) CHECK(values.emplace(part.outputs[i], made[i]).second);
      for (const auto& [name, constant] : part.initializers) weights[name] += name == "half" ? 0 : 1;
    }
    CHECK(values.size() == 3);  // the inputs, and the last end
    for (const auto& [name, count] : weights) CHECK(count <= 1);
  }
  CHECK(skipping > 100);
}

TEST_CASE("a network is not cut at what no node makes, or what a part before has") {
  std::mt19937 draw(13);
  const auto refused = [](const Graph& graph, const std::vector<std::string>& ends) {
    try {
      (void)crumb::graph::cut_behind(graph, ends);
    } catch (const crumb::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  Layered network = drawn_layers(draw);
  while (network.ends.size() < 2) network = drawn_layers(draw);
  CHECK(refused(network.graph, {network.ends[0], "nothing"}) == "no node makes the value 'nothing'");
  CHECK(refused(network.graph, {"x"}) == "no node makes the value 'x'");
  CHECK(
      refused(network.graph, {network.ends[1], network.ends[0]}).find("is made before '" + network.ends[1]) !=
      std::string::npos);
}

}  // namespace
