// Parameters of quantizers: their shapes, and what other floats than float32 do.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "export/lint/lint.h"
#include "export/lint/subject.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/export/lint/findings.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

namespace crumb::exporting {
namespace {

using crumb::testing::says;
using Sizes = std::vector<std::int64_t>;
using S = std::string;

TEST_CASE("lint: parameters' shapes: which broadcast to the data, which lack axes, and those of one number") {
  struct Case {
    Sizes scale;
    bool broadcasts, has_axes;
  };
  for (const Case& it : std::vector<Case>{{{}, true, true},
                                          {{1}, true, true},
                                          {{1, 1, 1, 1}, true, true},  // one number, whatever its shape
                                          {{3}, true, false},
                                          {{2, 1}, true, false},
                                          {{2, 3}, true, false},
                                          {{1, 2, 3}, true, true},
                                          {{1, 2, 1}, true, true},
                                          {{1, 1, 3}, true, true},
                                          {{2}, false, false},
                                          {{3, 1}, false, false},
                                          {{2, 2, 3}, false, true},
                                          {{1, 1, 2}, false, true},
                                          {{1, 1, 2, 3}, false, true},
                                          {{2, 1, 1, 1}, false, true}}) {
    for (const std::size_t parameter : {kScale, kZeropt}) {
      CAPTURE(it.scale);
      CAPTURE(parameter);
      graph::NodeBuilder net;
      const auto count = static_cast<std::size_t>(graph::count_elements(it.scale).take());
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + 1);
      net.graph.outputs = {net.quant(net.input("x", {1, 2, 3}), Tensor::scalar(1.0F), 0, 4)};
      Node& node = net.graph.nodes.back();
      const S name = node.inputs[parameter];
      net.constant(name, Tensor::floats(it.scale, values));
      const S which = parameter == kScale ? "scale has shape" : "zeropt has shape";
      const S shape = said_by(net.graph, Profile::kQonnx, "parameter-shape"),
              axes = said_by(net.graph, Profile::kQonnx, "parameter-axes");
      CHECK(shape.empty() == it.broadcasts);
      CHECK(axes.empty() == it.has_axes);
      if (!shape.empty()) CHECK(shape.starts_with(which));
      if (!axes.empty()) CHECK(says(axes, {which.c_str(), "expected 3 axes as the data have"}));
      // Of data of unknown shape nothing is said; an open axis takes any size.
      net.graph.values["x"].shape.reset();
      CHECK(said_by(net.graph, Profile::kQonnx, "parameter-shape").empty());
      CHECK(said_by(net.graph, Profile::kQonnx, "parameter-axes").empty());
      net.graph.values["x"].shape = graph::Shape{graph::Dim("n"), graph::Dim("m"), graph::Dim("k")};
      CHECK(said_by(net.graph, Profile::kQonnx, "parameter-shape").empty() ==
            (it.scale.size() <= 3 || count == 1));
    }
  }
  // Widths are other rules'.
  graph::NodeBuilder net;
  net.graph.outputs = {net.quant(net.input("x", {1, 2, 3}), Tensor::scalar(1.0F), 0, 4)};
  net.constant(net.graph.nodes[0].inputs[kBits], Tensor::floats({5}, std::vector<float>(5, 4)));
  CHECK(said_by(net.graph, Profile::kQonnx, "parameter-shape").empty());
  CHECK(said_by(net.graph, Profile::kQonnx, "parameter-axes").empty());
}

TEST_CASE("lint: open shapes are those of inputs, or, where these are known, of what nodes make") {
  const auto named = [](bool is_input_open, bool is_made_open, bool is_known) {
    graph::NodeBuilder net;
    net.graph.opsets["made.up"] = 1;
    net.input("x", {1, 3});
    net.input("y", {1, 3});
    if (is_input_open) net.graph.values["x"].shape = graph::Shape{graph::Dim("n"), 3};
    const S made = net.node("Strange", {"x", "y"}, {}, "made.up");
    net.graph.nodes.back().outputs.emplace_back();  // one that is left out
    if (is_made_open && is_known) net.graph.values[made].shape = graph::Shape{graph::Dim("m"), 3};
    if (!is_made_open) net.graph.values[made].shape = graph::Shape{1, 3};
    net.graph.values[made].type = graph::ElementType::kFloat;
    net.graph.outputs = {made};
    std::map<S, S> found;
    for (const Finding& one : lint(net.graph, Profile::kQonnx)) {
      if (one.rule == "static-shape") found[one.node] = one.message;
    }
    return found;
  };
  using Found = std::map<S, S>;
  const S made = "Strange0_out";
  CHECK(named(false, false, true).empty());
  CHECK(named(true, false, true) == Found{{"x", "its shape is [n, 3], expected numbers only"}});
  CHECK(named(true, true, true) == Found{{"x", "its shape is [n, 3], expected numbers only"}});
  CHECK(named(false, true, true) == Found{{made, "its shape is [m, 3], expected numbers only"}});
  CHECK(named(false, true, false) == Found{{made, "its shape is not known"}});
}

TEST_CASE(
    "lint: other floats than float32 in inputs, constants and casts; parameters of quantizers are another "
    "rule's") {
  using graph::ElementType;
  const auto zeros = [](ElementType type) {
    return Tensor(type, {1}, std::vector<std::byte>(info(type).bits / 8));
  };
  for (const ElementType type : {ElementType::kDouble, ElementType::kFloat16, ElementType::kBfloat16,
                                 ElementType::kFloat, ElementType::kInt8, ElementType::kInt64}) {
    const bool is_other =
        type == ElementType::kDouble || type == ElementType::kFloat16 || type == ElementType::kBfloat16;
    CAPTURE(static_cast<int>(type));
    const auto named = [&](const std::function<void(graph::NodeBuilder&)>& make) {
      graph::NodeBuilder net;
      net.input("x", {1});
      make(net);
      std::set<S> found;
      for (const Finding& one : lint(net.graph, Profile::kQonnx)) {
        if (one.rule == "float32") found.insert(one.node);
      }
      return found;
    };
    using Names = std::set<S>;
    CHECK(named([&](auto& net) {
            net.graph.values["x"].type = type;
            net.graph.outputs = {"x"};
          }) == (is_other ? Names{"x"} : Names{}));
    CHECK(named([&](auto& net) {
            net.graph.outputs = {net.node("Add", {"x", net.constant("c", zeros(type))})};
          }) == (is_other ? Names{"c"} : Names{}));
    CHECK(named([&](auto& net) {
            net.graph.outputs = {net.constant("c", zeros(type))};  // that no node takes
          }) == (is_other ? Names{"c"} : Names{}));
    CHECK(named([&](auto& net) {
            net.graph.outputs = {net.quant("x", Tensor::scalar(1.0F), 0, 4)};
            net.constant(net.graph.nodes[0].inputs[kZeropt], zeros(type));
          }).empty());
    CHECK(named([&](auto& net) {  // a parameter, and something else too
            const S y = net.quant("x", Tensor::scalar(1.0F), 0, 4);
            const S zero = net.graph.nodes[0].inputs[kZeropt];
            net.constant(zero, zeros(type));
            net.graph.outputs = {y, net.node("Neg", {zero})};
          })
              .size() == (is_other ? 1 : 0));
    CHECK(named([&](auto& net) {  // data of a quantizer
            net.graph.outputs = {net.quant(net.constant("w", zeros(type)), Tensor::scalar(1.0F), 0, 4)};
          }) == (is_other ? Names{"w"} : Names{}));
    CHECK(named([&](auto& net) {
            const S y = net.node("Cast", {"x"}, {{"to", std::int64_t{graph::onnx_number(type)}}});
            net.graph.values[y] = {.type = type, .shape = graph::Shape{1}};
            net.graph.outputs = {net.node("Neg", {y})};
          }) == (is_other ? Names{"Cast0"} : Names{}));
    CHECK(named([&](auto& net) {  // a Cast at an end
            const S y = net.node("Cast", {"x"}, {{"to", std::int64_t{graph::onnx_number(type)}}});
            net.graph.values[y] = {.type = type, .shape = graph::Shape{1}};
            net.graph.outputs = {y};
          })
              .empty());
    CHECK(named([&](auto& net) {  // and at a beginning
            net.graph.values["x"].type = type;
            net.graph.outputs = {net.node("Cast", {"x"}, {{"to", std::int64_t{1}}})};
          })
              .empty());
  }
}

}  // namespace
}  // namespace crumb::exporting
