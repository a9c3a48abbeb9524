// Graphs on the runtime: values live as long as they are wanted, threads share one executable, inputs are checked.
#include "runtime/engine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "formats/half.h"
#include "tests/support/samples.h"

using crumb::graph::Attribute;
using crumb::graph::Dim;
using crumb::graph::ElementType;
using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::Tensor;
using crumb::runtime::Engine;
using crumb::testing::says;

namespace {

Node node(const std::string& op, const std::vector<std::string>& inputs,
          const std::vector<std::string>& outputs, const std::map<std::string, Attribute>& attributes = {}) {
  return {.name = "n_" + outputs[0],
          .op = op,
          .version = 13,
          .inputs = inputs,
          .outputs = outputs,
          .attributes = attributes};
}

std::vector<float> run(const Graph& graph, const std::vector<Tensor>& inputs, std::size_t output = 0) {
  return Engine(1).prepare(graph)->run(inputs).at(output).to_floats();
}

std::string refusal(const Graph& graph, const std::vector<Tensor>& inputs) {
  try {
    Engine(1).prepare(graph)->run(inputs);
    return "";
  } catch (const crumb::Error& error) {
    return error.what();
  }
}

/// y = relu(x * x - 2) + x, which takes x twice, and once more at the end.
Graph sample() {
  Graph graph;
  graph.inputs = {"x"};
  graph.outputs = {"y"};
  graph.initializers["two"] = Tensor::scalar(2.0F);
  graph.nodes = {node("Mul", {"x", "x"}, {"a"}), node("Sub", {"a", "two"}, {"b"}), node("Relu", {"b"}, {"c"}),
                 node("Add", {"c", "x"}, {"y"})};
  return graph;
}

}  // namespace

TEST_CASE("runtime: values are what the nodes say, however often they are taken") {
  const std::vector<float> x{-3, -1, 0, 0.5F, 2};
  const std::vector<float> y = run(sample(), {Tensor::floats({5}, x)});
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == std::max(0.0F, x[i] * x[i] - 2) + x[i]);
  Graph graph = sample();
  graph.outputs = {"c", "x", "two", "c", "y"};  // kept values, an input, a constant, one twice
  const auto all = Engine(1).prepare(graph)->run({Tensor::floats({5}, x)});
  CHECK(all[1].to_floats() == x);
  CHECK(all[2].to_floats() == std::vector<float>{2});
  CHECK(all[0] == all[3]);
  CHECK(all[4].to_floats() == y);
}

TEST_CASE("runtime: a watch sees what it wants, as it is made") {
  std::map<std::string, std::vector<float>> seen;
  const auto executable = Engine(1).prepare(sample());
  const auto show = [&](const std::string& name, const Tensor& made) { seen[name] = made.to_floats(); };
  executable->run({Tensor::floats({1}, std::vector<float>{3})}, {.show = show, .wanted = {}});
  CHECK(seen == std::map<std::string, std::vector<float>>{{"a", {9}}, {"b", {7}}, {"c", {7}}, {"y", {10}}});
  seen.clear();
  executable->run({Tensor::floats({1}, std::vector<float>{3})},
                  {.show = show, .wanted = std::set<std::string>{"b"}});
  CHECK(seen == std::map<std::string, std::vector<float>>{{"b", {7}}});
}

TEST_CASE("runtime: many threads run one executable") {
  const auto executable = Engine(2).prepare(sample());
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        const auto x = static_cast<float>(t * 50 + round);
        const auto made = executable->run({Tensor::floats({2}, std::vector<float>{x, -x})});
        if (made[0].to_floats() !=
            std::vector<float>{std::max(0.0F, x * x - 2) + x, std::max(0.0F, x * x - 2) - x})
          ++wrong[static_cast<std::size_t>(t)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("runtime: float16 is rounded once for each operator") {
  Graph graph = sample();
  graph.nodes.insert(graph.nodes.begin(), node("Cast", {"wide"}, {"x"}, {{"to", std::int64_t{10}}}));
  graph.nodes.insert(graph.nodes.begin(), node("Cast", {"two"}, {"small_two"}, {{"to", std::int64_t{10}}}));
  graph.nodes[3].inputs[1] = "small_two";
  graph.inputs = {"wide"};
  const std::vector<float> wide{1.23456789F, 2.7182818F, -300.123F};
  const std::vector<float> y = run(graph, {Tensor::floats({3}, wide)});
  const auto half = [](float v) { return crumb::f16_to_float(crumb::float_to_f16(v)); };
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const float x = half(wide[i]), b = half(half(x * x) - 2);
    CHECK(y[i] == half(std::max(0.0F, b) + x));
  }
}

TEST_CASE("runtime: inputs that the graph does not take are refused with what was expected") {
  Graph graph = sample();
  graph.inputs = {"x", "z"};
  graph.values["x"] = {.type = ElementType::kFloat, .shape = crumb::graph::Shape{Dim("n"), Dim(3)}};
  graph.values["z"] = {.type = ElementType::kFloat, .shape = crumb::graph::Shape{Dim("n")}};
  const auto floats = [](std::vector<std::int64_t> shape) {
    const auto count = static_cast<std::size_t>(crumb::graph::count_elements(shape).take());
    return Tensor::floats(std::move(shape), std::vector<float>(count, 1.0F));
  };
  CHECK(refusal(graph, {floats({2, 3}), floats({2})}) == "");
  CHECK(says(refusal(graph, {floats({2, 4}), floats({2})}), {"'x'", "[n, 3]", "[2, 4]"}));
  CHECK(says(refusal(graph, {floats({2, 3}), floats({5})}), {"'z'", "[5]"}));
  CHECK(says(refusal(graph, {floats({6}), floats({2})}), {"'x'", "[6]"}));
  CHECK(says(refusal(graph, {Tensor::ints({2, 3}, std::vector<std::int64_t>(6, 1)), floats({2})}),
             {"'x'", "float", "int64"}));
  CHECK(says(refusal(graph, {floats({2, 3})}), {"2 inputs", "1"}));
}

TEST_CASE("runtime: every node without a kernel is named, before anything runs") {
  Graph graph = sample();
  graph.nodes[1].op = "Det";
  graph.nodes[2].op = "NoSuch";
  graph.nodes[3].op = "BatchNormalization";  // of training
  graph.nodes[3].attributes["training_mode"] = std::int64_t{1};
  const std::string said = refusal(graph, {Tensor::scalar(1.0F)});
  CHECK(says(said, {"n_b", "Det", "n_c", "NoSuch", "n_y", "training"}));
  CHECK(said.find("n_a") == std::string::npos);
}

TEST_CASE("runtime: what operands do not fit is said with the node") {
  Graph graph = sample();
  graph.initializers["two"] = Tensor::floats({2}, std::vector<float>{1, 2});
  CHECK(says(refusal(graph, {Tensor::floats({3}, std::vector<float>{1, 2, 3})}),
             {"'n_b' (Sub)", "[2]", "[3]"}));
  CHECK(says(refusal(sample(), {Tensor::ints({1}, std::vector<std::int64_t>{1})}),
             {"'n_b' (Sub)", "int64", "float"}));
}

TEST_CASE("runtime: substitutes make values in place of the nodes' kernels") {
  Graph graph = sample();
  graph.nodes[1].op = "NobodyKnowsIt";  // b; what has a substitute needs no kernel
  const auto twice = [](crumb::runtime::Call& call) {
    const auto from = call.floats(0);
    const auto to = call.make(0, call.in(0).type(), call.in(0).shape()).writable<float>();
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = 2 * from[i];
  };
  const Tensor x = Tensor::floats({2}, std::vector<float>{3, -1});
  std::vector<std::string> seen;
  const auto executable = Engine(1).prepare_in_floats(graph, {{"b", twice}});
  const auto show = [&](const std::string& name, const Tensor&) { seen.push_back(name); };
  CHECK(executable->run({x})[0].to_floats() == std::vector<float>{21, 1});
  CHECK(executable->run({x}, {.show = show, .wanted = {}})[0].to_floats() == std::vector<float>{21, 1});
  CHECK(seen == std::vector<std::string>{"a", "b", "c", "y"});
  const auto refusal_of = [&](const Graph& of, const crumb::runtime::Substitutes& instead) -> std::string {
    try {
      Engine(1).prepare_in_floats(of, instead);
      return "";
    } catch (const crumb::Error& error) {
      return error.what();
    }
  };
  CHECK(says(refusal_of(graph, {}), {"no kernel for node 'n_b' (NobodyKnowsIt)"}));
  CHECK(says(refusal_of(sample(), {{"nobody", twice}}), {"no node makes"}));
  Graph constant = sample();  // of constants alone: computed by every run
  constant.nodes.insert(constant.nodes.begin(), node("Neg", {"two"}, {"four"}));
  constant.nodes[2].inputs[1] = "four";
  CHECK(Engine(1).prepare_in_floats(constant, {{"four", twice}})->run({x})[0].to_floats() ==
        std::vector<float>{8, -1});
}
