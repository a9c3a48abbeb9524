// Constants: which are called by what name, whose axes are how many, and what cannot be worked out of them.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "export/lint/lint.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/export/lint/findings.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

namespace crumb::exporting {
namespace {

using crumb::testing::says;
using Ints = std::vector<std::int64_t>;

TEST_CASE("lint: parameters that are computed are called by their names") {
  struct Case {
    const char* op;
    std::vector<const char*> names;  // behind the data
  };
  for (const Case& it :
       {Case{"Quant", {"scale", "zeropt", "bitwidth", "an input"}},
        Case{"IntQuant", {"scale", "zeropt", "bitwidth", "an input"}}, Case{"BipolarQuant", {"scale"}},
        Case{"FloatQuant",
             {"scale", "exponent_bitwidth", "mantissa_bitwidth", "exponent_bias", "max_val", "an input"}},
        Case{"Trunc", {"scale", "zeropt", "in_bitwidth", "out_bitwidth"}},
        Case{"Trunc", {"scale", "zeropt", "in_bitwidth", "out_scale", "out_bitwidth", "an input"}}}) {
    graph::NodeBuilder net;
    std::vector<std::string> inputs{net.input("x", {1, 3})};
    for (std::size_t i = 0; i < it.names.size(); ++i)
      inputs.push_back(net.input("p" + std::to_string(i), {}));
    net.graph.outputs = {net.node(it.op, inputs, {}, kQonnxDomain)};
    const auto found = of_rule(net.graph, Profile::kFinn, "parameter-constant");
    std::multiset<std::string> said, wanted;
    for (const Finding& one : found) said.insert(one.message);
    for (const char* name : it.names) wanted.insert(std::string(name) + " is computed, expected a constant");
    std::set<std::string> once(wanted.begin(), wanted.end());  // the same finding twice is one
    CHECK(std::set<std::string>(said.begin(), said.end()) == once);
    // qonnx takes computed scales and zero points, widths not.
    for (const Finding& one : of_rule(net.graph, Profile::kQonnx, "parameter-constant"))
      CHECK((says(one.message + "bit", {"bit"}) && one.message.find("scale is") == std::string::npos));
  }
}

TEST_CASE("lint: a constant of as many axes as the data, and more") {
  struct Case {
    Ints data, constant;
    bool is_found, fixable;
  };
  for (const Case& it :
       {Case{{3}, {3}, true, false}, Case{{1}, {1}, true, true}, Case{{1, 3}, {3}, false, false},
        Case{{1, 3}, {1, 3}, true, true}, Case{{2, 3}, {2, 3}, true, false}, Case{{1, 3}, {}, false, false},
        Case{{}, {}, false, false}, Case{{1, 2, 3}, {2, 3}, false, false},
        Case{{1, 2, 3}, {1, 2, 3}, true, true}, Case{{1, 3}, {1, 1, 3}, true, true},
        Case{{1, 3}, {1, 2, 3}, true, false}, Case{{1, 3}, {2, 1, 3}, true, false}}) {
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Max"}) {
      for (const bool first : {false, true}) {
        CAPTURE(it.data);
        CAPTURE(it.constant);
        CAPTURE_COPY(std::string(op));
        graph::NodeBuilder net;
        const std::string x = net.input("x", it.data);
        const auto count = static_cast<std::size_t>(graph::count_elements(it.constant).take());
        const std::string c = net.constant("c", Tensor::floats(it.constant, std::vector<float>(count, 2)));
        net.graph.outputs = {net.node(op, first ? std::vector{c, x} : std::vector{x, c})};
        const auto found = of_rule(graph::infer_shapes(net.graph), Profile::kHls4ml, "batch-constant");
        REQUIRE(found.size() == (it.is_found && std::string(op) != "Max" ? 1 : 0));
        if (found.empty()) continue;
        CHECK(found[0].fixable == it.fixable);
        CHECK(says(found[0].message, {graph::text_of(std::span(it.constant)).c_str()}));
        const Node made = fixed(net, Profile::kHls4ml, op);
        const Graph after = fix(graph::infer_shapes(net.graph), Profile::kHls4ml);
        for (std::size_t i = 0; i < 2; ++i) {
          const Tensor* constant = constant_input(after, made, i);
          if (constant == nullptr) continue;
          CHECK(constant->size() == static_cast<std::int64_t>(count));
          if (it.fixable) CHECK(constant->rank() + 1 == it.data.size());
          if (!it.fixable) CHECK(constant->shape() == it.constant);
        }
      }
    }
  }
}

TEST_CASE("fix: of two constants with an axis for the batch, the one whose axes are longer than 1 stays") {
  for (const Ints& longer : {Ints{2, 1, 3}, Ints{1, 2, 3}, Ints{2, 2, 3}, Ints{2, 3}}) {
    CAPTURE(longer);
    graph::NodeBuilder net;
    const auto count = static_cast<std::size_t>(graph::count_elements(longer).take());
    const std::string c = net.constant("c", Tensor::floats(longer, std::vector<float>(count, 2))),
                      d = net.constant("d", Tensor::floats({1, 1, 3}, std::vector<float>(3, 2)));
    net.graph.outputs = {net.node("Add", {net.input("x", {1, 3}), c}),
                         net.node("Mul", {net.input("y", {1, 3}), d})};
    const Graph made = fix(graph::infer_shapes(net.graph), Profile::kHls4ml);
    const auto constant_of = [&](std::string_view op) {
      const auto found = std::ranges::find(made.nodes, op, &Node::op);
      REQUIRE(found != made.nodes.end());
      const Tensor* constant = constant_input(made, *found, 1);
      REQUIRE(constant != nullptr);
      return constant->shape();
    };
    CHECK(constant_of("Add") == longer);
    CHECK(constant_of("Mul") == Ints{3});
  }
}

TEST_CASE("lint: what cannot be worked out is said, and left as it is") {
  const auto conv = [](const std::function<void(graph::NodeBuilder&)>& change) {
    graph::NodeBuilder net;
    const std::string x = net.input("x", {1, 1, 4, 4}), w = net.input("w", {1, 1, 3, 3});
    net.graph.outputs = {net.node("Conv", {x, w}, {{"group", std::int64_t{1}}})};
    change(net);
    return net.graph;
  };
  using Found = std::map<std::string, bool>;  // message -> fixable
  const auto said = [](const Graph& graph, Profile profile = Profile::kHls4ml) {
    Found found;
    for (const Finding& one : of_rule(graph, profile, "conv-attributes")) found[one.message] = one.fixable;
    return found;
  };
  const auto missing = [](const char* name) { return "attribute " + std::string(name) + " is not written"; };
  const std::string same = "auto_pad is 'SAME_UPPER', expected pads";
  const auto all = [&](bool kernel, bool axes, bool pads, bool is_same = false) {
    return Found{{missing("kernel_shape"), kernel},
                 {missing("strides"), axes},
                 {missing("dilations"), axes},
                 {is_same ? same : missing("pads"), pads}};
  };
  const auto set_same = [](graph::NodeBuilder& net) {
    net.graph.nodes[0].attributes["auto_pad"] = std::string("SAME_UPPER");
  };
  CHECK(said(conv([](auto&) {})) == all(true, true, true));
  CHECK(said(conv(set_same)) == all(true, true, true, true));
  // A kernel of which one size is open.
  for (const auto& shape : {graph::Shape{1, 1, graph::Dim("k"), 3}, graph::Shape{1, 1, 3, graph::Dim("k")}}) {
    CHECK(said(conv([&](auto& net) { net.graph.values["w"].shape = shape; })) == all(false, true, true));
    CHECK(said(conv([&](auto& net) {
            net.graph.values["w"].shape = shape;
            set_same(net);
          })) == all(false, true, false, true));
  }
  // A kernel of which nothing is known, and one of too few axes.
  CHECK(said(conv([](auto& net) { net.graph.values["w"].shape.reset(); })) == all(false, false, false));
  CHECK(said(conv([](auto& net) {
          net.graph.values["w"].shape = graph::Shape{1, 1};
        })) == all(false, false, false));
  // An image of open size.
  for (const auto& shape : {graph::Shape{1, 1, graph::Dim("h"), 4}, graph::Shape{1, 1, 4, graph::Dim("w")}}) {
    CHECK(said(conv([&](auto& net) {
            net.graph.values["x"].shape = shape;
            set_same(net);
          })) == all(true, true, false, true));
  }
  // Strides that are none.
  for (const Ints& strides : {Ints{0, 1}, Ints{1, 0}, Ints{1, -1}, Ints{1}, Ints{1, 1, 1}}) {
    Found wanted = all(true, true, false, true);
    wanted.erase(missing("strides"));
    CHECK(said(conv([&](auto& net) {
            set_same(net);
            net.graph.nodes[0].attributes["strides"] = strides;
          })) == wanted);
  }
  // A Reshape: without a target it has none that is computed; with one it is known where its result is.
  for (const bool is_known : {true, false}) {
    for (const int inputs : {1, 2}) {
      graph::NodeBuilder net;
      std::vector<std::string> taken{net.input("x", {1, 6})};
      if (inputs == 2) {
        taken.push_back(net.input("to", {2}));
        net.graph.values["to"].type = graph::ElementType::kInt64;
      }
      const std::string y = net.node("Reshape", taken);
      if (is_known) net.graph.values[y] = {.type = graph::ElementType::kFloat, .shape = graph::Shape{2, 3}};
      net.graph.outputs = {y};
      const auto found = of_rule(net.graph, Profile::kHls4ml, "reshape-target");
      REQUIRE(found.size() == (inputs == 2 ? 1 : 0));
      if (!found.empty()) CHECK(found[0].fixable == is_known);
      const Graph fixed = fix(net.graph, Profile::kHls4ml);
      const Node& reshape = fixed.nodes.at(0);
      const Tensor* target = constant_input(fixed, reshape, 1);
      REQUIRE((target != nullptr) == (inputs == 2 && is_known));
      if (target != nullptr) CHECK(target->to_ints() == Ints{2, 3});
      CHECK_FALSE(reshape.has("allowzero"));  // no size is 0
    }
  }
  // No output either.
  graph::NodeBuilder net;
  const std::string x = net.input("x", {1, 6});
  net.graph.values[net.input("to", {2})].type = graph::ElementType::kInt64;
  net.node("Reshape", {x, "to"});
  net.graph.nodes[0].outputs.clear();
  net.graph.outputs = {net.node("Relu", {x})};
  const auto found = of_rule(net.graph, Profile::kHls4ml, "reshape-target");
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].fixable);
  CHECK(fix(net.graph, Profile::kHls4ml).nodes.size() == 1);
}

}  // namespace
}  // namespace crumb::exporting
