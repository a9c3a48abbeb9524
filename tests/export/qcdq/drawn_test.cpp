// Quantizers drawn in every form, written as QCDQ and read again: what can be written is what the header says, and computes
// the same numbers in the runtime. Numbers are multiples of powers of two.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "export/qcdq/from_qcdq.h"
#include "export/qcdq/to_qcdq.h"
#include "graph/onnx/infer_shapes.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb::exporting {
namespace {

using crumb::testing::says;
using graph::Graph;
using graph::Node;
using graph::Tensor;
using S = std::string;
using Dims = std::vector<std::int64_t>;

/// One quantizer of [2, 3, 4], of the input or of a constant.
struct DrawnQuantizer {
  bool is_constant = false, is_bipolar_quant = false, is_signed = true, narrow = false;
  float bits = 4, zero = 0;
  S mode = "ROUND";
  Dims scale_shape;
  std::vector<float> scale{1};

  std::size_t axes() const {  // along which scales differ
    const auto count = static_cast<std::size_t>(
        std::ranges::count_if(scale_shape, [](std::int64_t size) { return size != 1; }));
    return scale.size() == 1 ? 0 : count;
  }
  bool is_one_bit() const { return is_bipolar_quant || (bits == 1 && is_signed); }

  Graph graph(std::mt19937& engine) const {
    graph::NodeBuilder net;
    const Dims shape{2, 3, 4};
    S x = net.input("x", shape);
    if (is_constant) {
      std::vector<float> values(24);
      for (float& one : values) one = static_cast<float>(static_cast<int>(engine() % 129) - 64) / 16;
      x = net.constant("values", Tensor::floats(shape, values));
    }
    const Tensor scales = Tensor::floats(scale_shape, scale);
    S y;
    if (is_bipolar_quant) {
      y = net.node("BipolarQuant", {x, net.constant("s", scales)}, {}, graph::kQonnxDomain);
    } else {
      y = net.quant(x, scales, zero, bits, is_signed, narrow);
      net.graph.nodes.back().attributes["rounding_mode"] = mode;
    }
    net.graph.outputs = {net.node("Identity", {y})};
    return graph::infer_shapes(net.graph);
  }
};

DrawnQuantizer drawn_quantizer(std::mt19937& engine) {
  const auto one_in = [&](unsigned count) { return engine() % count == 0; };
  static constexpr const char* kModes[] = {"CEIL",    "FLOOR",     "UP",       "DOWN",
                                           "HALF_UP", "HALF_DOWN", "HALF_EVEN"};
  DrawnQuantizer made{
      .is_constant = one_in(3), .is_bipolar_quant = one_in(8), .is_signed = one_in(2), .narrow = one_in(2)};
  made.bits = static_cast<float>(one_in(2) ? 1 + engine() % 4 : 1 + engine() % 17);
  if (one_in(12)) made.bits += 0.5F;
  if (one_in(4)) made.zero = static_cast<float>(static_cast<int>(engine() % 9) - 4);
  if (one_in(16)) made.zero = static_cast<float>(static_cast<int>(engine() % 400) - 200);
  if (one_in(16)) made.zero += 0.5F;
  if (one_in(3)) made.mode = kModes[engine() % 7];
  const Dims whole{2, 3, 4};
  if (one_in(2)) {
    made.scale_shape = {1, 1, 1};
    for (std::size_t axis = 0; axis < 3; ++axis)
      if (one_in(2)) made.scale_shape[axis] = whole[axis];
  } else if (one_in(3)) {
    made.scale_shape = {4};
  }
  made.scale.assign(static_cast<std::size_t>(graph::count_elements(made.scale_shape).take()), 1);
  for (float& one : made.scale) one = std::ldexp(1.0F, static_cast<int>(engine() % 4) - 2);
  return made;
}

/// By to_qcdq.h: whether integers of a width and sign, narrow or not, and a zero point have a container.
bool has_container(const DrawnQuantizer& q, const QcdqOptions& options) {
  const bool narrow = q.narrow && !q.is_one_bit();
  int width = 0;
  if (options.native_types && q.bits == 4 && !narrow && options.opset >= 21) {
    width = 4;
  } else if (options.native_types && q.bits == 2 && !narrow && options.opset >= 25) {
    width = 2;
  } else if (q.bits <= 8) {
    width = 8;
  } else if (q.is_constant && q.zero == 0) {
    return q.bits <= (q.is_signed ? 32 : 31);  // int32
  } else if (q.bits <= 16 && options.opset >= 21) {
    width = 16;
  }
  const double half = std::ldexp(1.0, width - 1), zero = static_cast<double>(q.zero);
  return width > 0 && (q.is_signed ? zero >= -half && zero < half : zero >= 0 && zero < 2 * half);
}

bool can_be_said(const DrawnQuantizer& q, const QcdqOptions& options) {
  if (options.arithmetic == Arithmetic::kAll && !q.is_constant && !q.is_bipolar_quant) return true;
  const bool groups = q.axes() > 1 && options.opset < 21;
  if (q.is_bipolar_quant) return !q.is_constant || !groups;
  if (options.arithmetic != Arithmetic::kNone && !q.is_constant) return true;
  if (std::trunc(q.zero) != q.zero || std::trunc(q.bits) != q.bits || groups) return false;
  if (q.bits == 1 && q.narrow && !q.is_signed) return false;
  if (!q.is_constant) {
    if (q.is_one_bit()) return q.zero == 0;
    if (q.mode != "ROUND" && q.mode != "HALF_EVEN") return false;
  }
  return has_container(q, options);
}

std::vector<float> computed(const Graph& graph, const std::vector<float>& values) {
  return runtime::Engine(1)
      .prepare_in_floats(graph)
      ->run({Tensor::floats({2, 3, 4}, values)})
      .at(0)
      .to_floats();
}

TEST_CASE("QCDQ: what can be said is what the types hold, and it computes the same, there and back") {
  std::mt19937 engine(12);
  int taken = 0, refused = 0, back = 0, native = 0;
  const int rounds = testing::slow() ? 4000 : 1500;
  for (int round = 0; round < rounds; ++round) {
    const DrawnQuantizer q = drawn_quantizer(engine);
    static constexpr std::int64_t kOpsets[] = {13, 19, 21, 23, 25};
    QcdqOptions options{.opset = kOpsets[engine() % 5],
                        .native_types = engine() % 2 == 0,
                        .weights_as_float = engine() % 3 == 0};
    options.arithmetic = static_cast<Arithmetic>(engine() % 3);
    const Graph graph = q.graph(engine);
    CAPTURE(round);
    CAPTURE(q.is_constant);
    CAPTURE(q.is_bipolar_quant);
    CAPTURE(q.bits);
    CAPTURE(q.is_signed);
    CAPTURE(q.narrow);
    CAPTURE(q.zero);
    CAPTURE(q.mode);
    CAPTURE(q.scale_shape);
    CAPTURE(options.opset);
    CAPTURE(options.native_types);
    CAPTURE(static_cast<int>(options.arithmetic));
    QcdqReport report;
    const auto found = find_qcdq(graph, options, report);
    CHECK(found.ok() == can_be_said(q, options));
    if (!found.ok()) {
      ++refused;
      CHECK(says(found.failure().message, {"cannot be written as", "(QONNX can say them)"}));
      continue;
    }
    ++taken;
    const Graph& made = found.value();
    CHECK(made.opset() == options.opset);
    for (const Node& node : made.nodes) CHECK(node.domain.empty());
    for (const auto& [name, tensor] : made.initializers) native += graph::info(tensor.type()).bits < 8;
    const bool is_arithmetic = !report.arithmetic.empty();
    CHECK(report.bipolar.empty() == !(q.is_constant && q.is_one_bit()));
    const bool has_linear =
        std::ranges::any_of(made.nodes, [](const Node& node) { return node.op == "DequantizeLinear"; });
    CHECK(has_linear == (q.is_constant || !(is_arithmetic || q.is_one_bit())));
    CHECK(report.ties.empty() == !(q.zero != 0 && has_linear && !q.is_constant));
    std::vector<float> values(24);
    for (float& one : values) {
      one = static_cast<float>(static_cast<int>(engine() % 257) - 128) / 16;
      if (!report.ties.empty()) one += 1.0F / 64;  // ties aside
    }
    const std::vector<float> wanted = computed(graph, values);
    CHECK(computed(made, values) == wanted);
    if (is_arithmetic) continue;
    ++back;
    const Graph again = from_qcdq(made);
    CHECK(computed(again, values) == wanted);
    const auto quantizer = std::ranges::find_if(
        again.nodes, [](const Node& node) { return node.domain == graph::kQonnxDomain; });
    REQUIRE(quantizer != again.nodes.end());
    CHECK(quantizer->op == (q.is_bipolar_quant ? "BipolarQuant" : "Quant"));
    if (q.is_bipolar_quant) continue;
    CHECK(again.constant(quantizer->inputs[3])->to_floats() == std::vector<float>{q.bits});
    CHECK(quantizer->int_or("signed", -1) == (q.is_signed ? 1 : 0));
    if (!q.is_one_bit()) CHECK(quantizer->int_or("narrow", -1) == (q.narrow ? 1 : 0));
  }
  CHECK(taken > rounds / 2);
  CHECK(refused > rounds / 8);
  CHECK(back > rounds / 4);
  CHECK(native > rounds / 150);
}

TEST_CASE("from QCDQ: signs of an input, and what is nearly so") {
  const auto ops_of = [](const auto& change) {
    graph::NodeBuilder net;
    net.graph.opsets[""] = 13;
    const S x = net.input("x", {2, 3}), zero = net.constant("zero", Tensor::scalar(0.0F)),
            plus = net.constant("plus", Tensor::floats({1, 3}, std::vector<float>{1, 2, 4})),
            minus = net.constant("minus", Tensor::floats({1, 3}, std::vector<float>{-1, -2, -4}));
    const S test = net.node("GreaterOrEqual", {x, zero});
    net.graph.outputs = {net.node("Where", {test, plus, minus})};
    change(net);
    const Graph made = from_qcdq(graph::infer_shapes(net.graph));
    S ops;
    for (const Node& node : made.nodes) ops += (ops.empty() ? "" : " ") + node.op;
    return ops;
  };
  const auto divided = [](graph::NodeBuilder& net, const Tensor& by) {
    net.graph.nodes.insert(net.graph.nodes.begin(), Node{.name = "div",
                                                         .op = "Div",
                                                         .version = 13,
                                                         .inputs = {"x", net.constant("by", by)},
                                                         .outputs = {"quotient"}});
    net.graph.nodes[1].inputs[0] = "quotient";
  };
  const auto floats = [](Dims shape, std::vector<float> values) {
    return Tensor::floats(std::move(shape), values);
  };
  CHECK(ops_of([](auto&) {}) == "BipolarQuant");
  CHECK(ops_of([&](auto& net) { divided(net, floats({1, 3}, {1, 2, 4})); }) == "Quant");
  CHECK(ops_of([&](auto& net) { divided(net, floats({1, 3}, {1, 2, 5})); }) == "Div BipolarQuant");
  // Another number for below, another bound, another comparison, another shape.
  const S as_it_was = "GreaterOrEqual Where";
  CHECK(ops_of([&](auto& net) { net.constant("minus", floats({1, 3}, {-1, -2, 4})); }) == as_it_was);
  CHECK(ops_of([&](auto& net) { net.constant("minus", floats({3}, {-1, -2, -4})); }) == as_it_was);
  CHECK(ops_of([&](auto& net) { net.constant("zero", Tensor::scalar(1.0F)); }) == as_it_was);
  CHECK(ops_of([&](auto& net) { net.constant("zero", floats({1}, {0})); }) == as_it_was);
  CHECK(ops_of([](auto& net) { net.graph.nodes[0].op = "Greater"; }) == "Greater Where");
  CHECK(ops_of([](auto& net) { std::swap(net.graph.nodes[1].inputs[1], net.graph.nodes[1].inputs[2]); }) ==
        "BipolarQuant");  // of scales below zero
  // Scales that make the result another shape than the input's.
  CHECK(ops_of([&](auto& net) {
          net.constant("plus", floats({1, 1, 3}, {1, 2, 4}));
          net.constant("minus", floats({1, 1, 3}, {-1, -2, -4}));
        }) == as_it_was);
  CHECK(ops_of([&](auto& net) { net.graph.values["x"].shape = graph::Shape{2, 1}; }) == as_it_was);
  CHECK(ops_of([&](auto& net) {
          net.graph.values["x"].shape = graph::Shape{2, graph::Dim("n")};
        }) == as_it_was);
  CHECK(ops_of([&](auto& net) {
          net.constant("plus", floats({3}, {1, 2, 4}));
          net.constant("minus", floats({3}, {-1, -2, -4}));
        }) == "BipolarQuant");
  CHECK(ops_of([&](auto& net) {
          net.constant("plus", Tensor::scalar(2.0F));
          net.constant("minus", Tensor::scalar(-2.0F));
          net.graph.values["x"].shape.reset();
        }) == "BipolarQuant");
}

}  // namespace
}  // namespace crumb::exporting
