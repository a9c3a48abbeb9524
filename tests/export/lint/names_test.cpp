// Names of nodes, inputs and constants, as tools take them.
#include <doctest/doctest.h>

#include <cctype>
#include <set>
#include <string>

#include "export/lint/lint.h"
#include "tests/export/lint/findings.h"
#include "tests/graph/node_builder.h"

namespace crumb::exporting {
namespace {

TEST_CASE("names for hls4ml: inputs are words of C++ that it does not take, constants begin with no digit") {
  const auto faults = [](const std::string& input, const std::string& constant, const std::string& node) {
    graph::NodeBuilder net;
    net.input(input, {1, 3});
    net.constant(constant, Tensor::scalar(1.0F));
    net.graph.outputs = {net.node("Add", {input, constant})};
    net.graph.nodes.back().name = node;
    std::set<std::string> found;
    for (const Finding& one : of_rule(net.graph, Profile::kHls4ml, "cpp-name")) found.insert(one.node);
    // What is renamed is found no more, and has names that differ.
    const Graph renamed = fix_names(net.graph, Profile::kHls4ml);
    CHECK(of_rule(renamed, Profile::kHls4ml, "cpp-name").empty());
    CHECK(renamed.nodes[0].inputs[0] == renamed.inputs[0]);
    CHECK(renamed.initializers.contains(renamed.nodes[0].inputs[1]));
    CHECK(renamed.inputs[0] != renamed.nodes[0].name);
    if (input != node) CHECK((renamed.inputs[0] == input) != found.contains(input));
    CHECK(renamed.initializers.contains(constant) != found.contains(constant));
    return found;
  };
  using Names = std::set<std::string>;
  CHECK(faults("x", "c", "Add_0") == Names{});
  for (const char* word : {"a", "z", "A", "Z", "a0", "a9", "_a", "a_b", "image2"})
    CHECK(faults(word, "c", "Add_0") == Names{});
  for (const char* odd : {"0a", "9", "a.b", "a-b", "a b", "a:b", "a/b", "a@b", "a[b", "a`b", "a{b"})
    CHECK(faults(odd, "c", "Add_0") == Names{odd});
  for (const char* taken :
       {"alignas", "xor_eq", "input_t", "result_t", "myproject", "this", "while", "input"})
    CHECK(faults(taken, "c", "Add_0") == Names{taken});
  for (const char* constant : {"this", "a-b", "_c", "/c", "c9"})
    CHECK(faults("x", constant, "Add_0") == Names{});
  for (const char* constant : {"0c", "9c", "c.d", "input"})
    CHECK(faults("x", constant, "Add_0") == Names{constant});
  for (const char* node : {"this", "Add_9", "a_"}) CHECK(faults("x", "c", node) == Names{});
  for (const char* node : {"input", "a-b", "a/b"}) CHECK(faults("x", "c", node) == Names{node});
  CHECK(faults("Add_0", "c", "Add_0") == Names{"Add_0"});
}

TEST_CASE("fix: nodes' names begin with a letter, hold no point, and differ") {
  const std::vector<std::vector<std::string>> all{
      {"a", "b"},   {"a", "a"},  {"", ""},        {"0a", "Relu_0"},
      {"a.b", "a"}, {"_a", "@"}, {"a", "a", "a"}, {"", "Relu_0", "Relu_1"}};
  for (const auto& names : all) {
    CAPTURE(names);
    graph::NodeBuilder net;
    std::string y = net.input("x", {1, 3});
    for (const std::string& name : names) {
      y = net.node("Relu", {y});
      net.graph.nodes.back().name = name;
    }
    net.graph.outputs = {y};
    const Graph made = fix(net.graph, Profile::kQonnx);
    REQUIRE(made.nodes.size() == names.size());
    std::set<std::string> seen;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& name = made.nodes[i].name;
      CHECK(seen.insert(name).second);
      CHECK(std::isalpha(static_cast<unsigned char>(name.at(0))) != 0);
      CHECK(name.find('.') == std::string::npos);
      const bool is_good = !names[i].empty() && std::isalpha(static_cast<unsigned char>(names[i][0])) != 0 &&
                           names[i].find('.') == std::string::npos &&
                           std::ranges::count(names, names[i]) == 1;
      if (is_good) CHECK(name == names[i]);
    }
    const auto found = of_rule(net.graph, Profile::kQonnx, "node-name");
    CHECK(found.empty() == std::ranges::equal(names, made.nodes, {}, {}, &Node::name));
  }
}

}  // namespace
}  // namespace crumb::exporting
