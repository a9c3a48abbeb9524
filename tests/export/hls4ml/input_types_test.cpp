// The fixed-point types of inputs, and what is said of a network that they make inexact.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>

#include "export/hls4ml/layer_types.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

namespace crumb::exporting::hls4ml {
namespace {

using crumb::testing::says;
using graph::Tensor;
using Ints = std::vector<std::int64_t>;

TEST_CASE("types: an input is what its quantizers take, where they are alike and nothing else takes it") {
  using S = std::string;
  const auto quantized = [](graph::NodeBuilder& net, const S& x, float bits = 4) {
    return net.quant(x, Tensor::scalar(0.5F), 0, bits);
  };
  const S own = "ap_fixed<4,3,AP_RND_CONV,AP_SAT>", given = "ap_fixed<3,3>";
  struct Case {
    const char* what;
    std::function<std::vector<S>(graph::NodeBuilder&, const S&)> make;
    S type, failure;
  };
  const std::vector<Case> all{
      {"one", [&](auto& n, const S& x) { return std::vector{quantized(n, x)}; }, own, ""},
      {"alike",
       [&](auto& n, const S& x) {
         return std::vector{quantized(n, x), quantized(n, x)};
       },
       own, ""},
      {"moved",
       [&](auto& n, const S& x) {
         const S turned = n.node("Transpose", {x}, {{"perm", Ints{1, 0}}});
         return std::vector{quantized(n, n.node("Flatten", {n.node("Identity", {turned})}))};
       },
       own, ""},
      {"different",
       [&](auto& n, const S& x) {
         return std::vector{quantized(n, x), quantized(n, x, 5)};
       },
       given, "it is quantized in several ways"},
      {"others",
       [&](auto& n, const S& x) {
         return std::vector{quantized(n, x), n.node("Relu", {x})};
       },
       given, "something computes with them"},
      {"output",
       [&](auto& n, const S& x) {
         return std::vector{quantized(n, x), x};
       },
       given, "something computes with them"},
      {"moved output",
       [&](auto& n, const S& x) {
         return std::vector{quantized(n, x), n.node("Identity", {x})};
       },
       given, "something computes with them"},
      {"zero point", [&](auto& n, const S& x) { return std::vector{n.quant(x, Tensor::scalar(0.5F), 1, 4)}; },
       given, "something computes with them"},
      {"odd scale", [&](auto& n, const S& x) { return std::vector{n.quant(x, Tensor::scalar(0.3F), 0, 4)}; },
       given, "something computes with them"},
  };
  for (const Case& it : all) {
    CAPTURE_COPY(S(it.what));
    graph::NodeBuilder net;
    net.graph.outputs = it.make(net, net.input("x", {1, 3}));
    const graph::Graph graph = graph::infer_shapes(net.graph);
    const NetworkTypes types = types_of(graph), known = types_of(graph, {{"x", {-4, 3}}});
    const auto starts = [](const S& line) { return line.starts_with("input 'x'"); };
    const auto failure = std::ranges::find_if(types.inexact, starts);
    CHECK(types.inputs.contains("x") == it.failure.empty());
    CHECK(types.input_spans.contains("x") == it.failure.empty());
    if (it.failure.empty()) {
      CHECK(failure == types.inexact.end());
      CHECK(types.inputs.at("x") == own);
      const InputSpan& span = types.input_spans.at("x");
      CHECK(std::vector{span.low, span.high, span.step} == std::vector<double>{-4, 3.5, 0.5});
      CHECK(span.is_quantized_first);
    } else {
      REQUIRE(failure != types.inexact.end());
      CHECK(says(*failure, {it.failure.c_str(), "--input-range x=LOW:HIGH"}));
    }
    CHECK(std::ranges::none_of(known.inexact, starts));
    CHECK(known.inputs.at("x") == it.type);
    if (!it.failure.empty()) {
      const InputSpan& span = known.input_spans.at("x");
      CHECK(std::vector{span.low, span.high, span.step} == std::vector<double>{-4, 3, 1});
      CHECK_FALSE(span.is_quantized_first);
    }
  }
  // Whole numbers that float32 does not hold are not known either.
  graph::NodeBuilder net;
  net.graph.outputs = {net.node("Relu", {net.input("x", {1, 3})})};
  const graph::Graph graph = graph::infer_shapes(net.graph);
  CHECK(types_of(graph, {{"x", {0, 1 << 24}}}).inexact.empty());
  CHECK_FALSE(types_of(graph, {{"x", {0, (1 << 24) + 1}}}).inexact.empty());
}

TEST_CASE("types: what is inexact is listed, up to twenty") {
  for (const std::size_t count : {0u, 1u, 20u, 21u, 23u}) {
    NetworkTypes types;
    for (std::size_t i = 0; i < count; ++i) types.inexact.push_back("node" + std::to_string(i) + ": why");
    std::string said;
    try {
      refuse_inexact(types);
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK(said.empty() == (count == 0));
    for (std::size_t i = 0; i < count; ++i)
      CHECK((said.find("node" + std::to_string(i) + ":") != std::string::npos) == (i < 20));
    CHECK((said.find("more") != std::string::npos) == (count > 20));
    const std::string rest = "and " + std::to_string(count - 20) + " more";
    if (count > 20) CHECK(says(said, {rest.c_str()}));
  }
}

}  // namespace
}  // namespace crumb::exporting::hls4ml
