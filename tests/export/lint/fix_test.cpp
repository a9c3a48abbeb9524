// Networks drawn out of pieces that tools take otherwise or not at all: what is fixed is not found again, and computes the
// same numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "export/lint/lint.h"
#include "export/lint/subject.h"
#include "graph/onnx/infer_shapes.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/testing.h"

namespace crumb::exporting {
namespace {

using Ints = std::vector<std::int64_t>;
using S = std::string;

/// All numbers are small multiples of powers of two, so that no order of sums matters.
struct Drawn : graph::NodeBuilder {
  std::mt19937 engine;
  S value;
  Ints shape;
  std::size_t elements = 1;  // of the input

  explicit Drawn(unsigned seed) : engine(seed) {}

  int draw(int low, int high) { return std::uniform_int_distribution(low, high)(engine); }
  bool one_in(int count) { return draw(1, count) == 1; }
  float power() { return std::ldexp(1.0F, draw(-2, 1)); }
  S fresh(const char* what) { return what + std::to_string(graph.initializers.size()); }

  S floats(const Ints& of, int low, int high, float step) {
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(of).take()));
    for (float& one : values) one = static_cast<float>(draw(low, high)) * step;
    return constant(fresh("c"), Tensor::floats(of, values));
  }

  /// Powers of two for each index of an axis, or one for all that stands in as many axes or in none.
  Tensor scale(const Ints& of, std::optional<std::size_t> axis) {
    const float one = power();
    if (axis && one_in(2)) {
      Ints part(of.size(), 1);
      part[*axis] = of[*axis];
      std::vector<float> values(static_cast<std::size_t>(of[*axis]), one);
      if (one_in(2)) std::ranges::generate(values, [&] { return power(); });
      if (one_in(4)) part.erase(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(*axis));
      return Tensor::floats(part, values);
    }
    return one_in(4) ? Tensor::floats({1}, std::vector<float>{one}) : Tensor::scalar(one);
  }

  S quantizer(const S& of, const Tensor& scale, bool is_weight) {
    static constexpr const char* kModes[] = {"ROUND", "ROUND", "ROUND", "HALF_EVEN",
                                             "FLOOR", "CEIL",  "round", "HALF_UP"};
    const bool is_signed = one_in(2), narrow = one_in(3);
    const auto zero = static_cast<float>(one_in(5) ? draw(-3, 3) : 0);
    S made = quant(of, scale, zero, static_cast<float>(draw(2, 4)), is_signed, narrow);
    Node& node = graph.nodes.back();
    if (one_in(3)) node.attributes["rounding_mode"] = S(kModes[draw(0, 7)]);
    if (one_in(8)) node.attributes.erase("rounding_mode");
    if (one_in(8)) node.op = "IntQuant";
    const auto parameter = [&](std::size_t i) -> Tensor& { return graph.initializers.at(node.inputs[i]); };
    const std::size_t axes = is_weight ? graph.initializers.at(of).rank() : shape.size();
    if (one_in(8)) parameter(kBits) = Tensor::floats({1}, parameter(kBits).to_floats());
    if (one_in(8)) parameter(kZeropt) = Tensor::floats(Ints(axes, 1), parameter(kZeropt).to_floats());
    if (one_in(8)) parameter(kZeropt) = Tensor::ints({}, Ints{static_cast<std::int64_t>(zero)});
    if (!is_weight && one_in(8)) {
      node.op = "Quant";
      parameter(kBits) = Tensor::scalar(1.0F);
      parameter(kZeropt) = Tensor::scalar(0.0F);
      node.attributes["signed"] = std::int64_t{1};
    }
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
      graph.values[node.inputs[i]] = graph::value_of(parameter(i));
    return made;
  }

  S weight(const Ints& of, std::size_t axis) {
    const S data = floats(of, -6, 6, 0.25F);
    return quantizer(data, scale(of, axis), true);
  }

  void activation() {
    if (one_in(2)) value = node("Relu", {value});
    const std::size_t axis = shape.size() == 2 || one_in(3) ? shape.size() - 1 : 1;
    value = quantizer(value, scale(shape, one_in(3) ? std::optional(axis) : std::nullopt), false);
    if (one_in(4)) value = node("Identity", {value});
  }

  void dense() {
    const std::int64_t in = shape[1], out = draw(1, 4);
    const int kind = draw(0, 3);
    if (kind == 0) {
      const bool turned = one_in(2);
      std::vector<S> inputs{value, turned ? weight({out, in}, 0) : weight({in, out}, 1)};
      if (one_in(2)) inputs.push_back(floats({out}, -8, 8, 0.125F));
      std::map<S, graph::Attribute> attributes;
      if (turned) attributes["transB"] = std::int64_t{1};
      if (one_in(4)) attributes["alpha"] = 2.0F;
      if (one_in(4)) attributes["beta"] = 0.5F;
      value = node("Gemm", inputs, attributes);
    } else if (kind == 1) {
      const S turned = node(
          "Transpose", {weight({out, in}, 0)},
          one_in(2) ? std::map<S, graph::Attribute>{{"perm", Ints{1, 0}}} : std::map<S, graph::Attribute>{});
      value = node("MatMul", {value, turned});
    } else {
      value = node("MatMul", {value, weight({in, out}, 1)});
    }
    shape = {1, out};
    if (one_in(2)) {
      const S bias =
          one_in(2) ? floats(one_in(2) ? Ints{out} : Ints{1, out}, -8, 8, 0.125F) : weight({1, out}, 1);
      value = node("Add", one_in(2) ? std::vector{value, bias} : std::vector{bias, value});
    }
    if (one_in(4)) value = node("Mul", {floats({}, 1, 3, 0.5F), value});
  }

  void convolution() {
    const std::int64_t channels = shape[1], groups = one_in(3) ? channels : 1, out = groups * draw(1, 2);
    const std::int64_t side = draw(1, 2);
    std::vector<S> inputs{value, weight({out, channels / groups, side, side}, 0)};
    if (one_in(2)) inputs.push_back(one_in(2) ? floats({out}, -8, 8, 0.125F) : weight({out}, 0));
    std::map<S, graph::Attribute> attributes;
    if (groups > 1 || one_in(2)) attributes["group"] = groups;
    if (one_in(2)) attributes["kernel_shape"] = Ints{side, side};
    if (one_in(2)) attributes["strides"] = Ints{1, 1};
    if (one_in(2)) attributes["dilations"] = Ints{1, 1};
    const int pads = draw(0, 3);
    if (pads == 0) attributes["pads"] = Ints{1, 0, 1, 1};
    if (pads == 1) attributes["auto_pad"] = S(one_in(2) ? "SAME_UPPER" : "SAME_LOWER");
    if (pads == 2) attributes["auto_pad"] = S("VALID");
    value = node("Conv", inputs, attributes);
    const std::int64_t rows = shape[2], columns = shape[3];
    shape = {1, out,
             pads == 0   ? rows + 3 - side
             : pads == 1 ? rows
                         : rows + 1 - side,
             pads == 0   ? columns + 2 - side
             : pads == 1 ? columns
                         : columns + 1 - side};
    if (shape[2] > 1 && shape[3] > 1 && one_in(3)) {
      value = node("MaxPool", {value}, {{"kernel_shape", Ints{2, 2}}});
      --shape[2], --shape[3];
    }
  }

  graph::Graph made(bool is_image) {
    graph.opsets[S(kChannelsLastDomain)] = 1;
    shape = is_image ? Ints{1, draw(1, 3), draw(2, 4), draw(2, 4)} : Ints{1, draw(1, 5)};
    for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
    value = input("x", shape);
    if (!one_in(6)) activation();
    if (is_image) {
      convolution();
      activation();
      if (one_in(2)) {
        value = node("Flatten", {value});
        shape = {1, shape[1] * shape[2] * shape[3]};
      }
    }
    for (int i = 0; shape.size() == 2 && i < 2; ++i) {
      dense();
      if (i == 0 || one_in(2)) activation();
    }
    graph.outputs = {value};
    return graph::infer_shapes(graph);
  }
};

/// Of whole steps and of what lies between them.
std::vector<float> outputs_of(const Graph& graph, const std::vector<float>& values) {
  const graph::Value& x = graph.values.at("x");
  Ints shape;
  for (const graph::Dim& dim : *x.shape) shape.push_back(dim.size);
  const auto network = runtime::Engine(1).prepare_in_floats(graph);
  return network->run({Tensor::floats(shape, values)}).at(0).to_floats();
}

TEST_CASE("fix: nothing that could be fixed is left, and every number stays") {
  int with_findings = 0, compared = 0;
  const unsigned seeds = testing::slow() ? 400 : 200;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    for (const Profile profile : {Profile::kQonnx, Profile::kFinn, Profile::kHls4ml}) {
      const bool is_image = seed % 3 == 0;
      Drawn drawn(seed);
      const Graph graph = drawn.made(is_image);
      CAPTURE(seed);
      CAPTURE_COPY(S(name_of(profile)));
      const auto found = lint(graph, profile);
      with_findings += std::ranges::any_of(found, &Finding::fixable);
      CHECK(std::ranges::is_sorted(found));
      const Graph fixed = fix(graph, profile);
      for (const Finding& left : lint(fixed, profile)) {
        CAPTURE_COPY(left.rule + " " + left.node + ": " + left.message);
        CHECK_FALSE(left.fixable);
      }
      if (std::ranges::any_of(fixed.nodes, [](const Node& node) { return is_last(node); })) continue;
      ++compared;
      for (int sample = 0; sample < 3; ++sample) {
        std::vector<float> values(drawn.elements);
        for (float& one : values)
          one = static_cast<float>(drawn.draw(-64, 64)) / (sample == 0 ? 4.0F : sample == 1 ? 16.0F : 8.0F);
        CHECK(outputs_of(fixed, values) == outputs_of(graph, values));
      }
    }
  }
  CHECK(with_findings > static_cast<int>(seeds) * 5 / 2);  // of three profiles
  CHECK(compared > static_cast<int>(seeds) * 9 / 4);
}

}  // namespace
}  // namespace crumb::exporting
