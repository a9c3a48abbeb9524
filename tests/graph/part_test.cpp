// Parts of drawn graphs: what follows from the given values and nothing else, and every node in a part when the parts are one
// behind the other.
#include "graph/part.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/error.h"
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

}  // namespace
