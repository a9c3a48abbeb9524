// Where integers are of use: norms, activation functions, softmax, spectra and masks of many nodes stay in floats.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "graph/quantize/operators.h"
#include "graph/quantize/plan.h"
#include "tests/graph/quantize/build_graph.h"

namespace crumb::graph {
namespace {

using testing::GraphBuilder;
using Ints = std::vector<std::int64_t>;

std::string edges_of(const GraphBuilder& b, const std::string& more = "",
                     Placement placement = Placement::kWhereIntegersGoOn) {
  const Recipe recipe = parse_recipe("weights: int8\nactivations: uint8\n" + more, "r.yaml");
  std::string text;
  for (const PlannedEdge& edge : plan_quantizers(b.done(), recipe, {.placement = placement}).edges)
    text += (text.empty() ? "" : " ") + edge.value;
  return text;
}

/// What takes value "a" and gives value "z" of the same shape [1, 4, 6], and is no product.
using Part = std::function<void(GraphBuilder&)>;

void layer_norm_by_squares(GraphBuilder& b, bool expands) {
  const std::map<std::string, Attribute> last{{"axes", Ints{-1}}, {"keepdims", std::int64_t{1}}};
  b.graph.initializers["shape"] = Tensor::ints({3}, Ints{1, 4, 6});
  b.constant("eps", {}, {1e-5F});
  b.node("ReduceMean", {"a"}, "mean", last)
      .node("Mul", {"a", "a"}, "squares")
      .node("ReduceMean", {"squares"}, "of_squares", last);
  b.node("Mul", {"mean", "mean"}, "square").node("Sub", {"of_squares", "square"}, "variance");
  b.node("Add", {"variance", "eps"}, "safe").node("Sqrt", {"safe"}, "root");
  if (expands) b.node("Expand", {"mean", "shape"}, "means").node("Expand", {"root", "shape"}, "roots");
  b.node("Sub", {"a", expands ? "means" : "mean"}, "centred")
      .node("Div", {"centred", expands ? "roots" : "root"}, "z");
}

void gelu_by_tanh(GraphBuilder& b) {
  b.constant("three", {}, {3})
      .constant("c", {}, {.044715F})
      .constant("k", {}, {.797885F})
      .constant("one", {}, {1});
  b.constant("half", {}, {.5F});
  b.node("Pow", {"a", "three"}, "cube")
      .node("Mul", {"cube", "c"}, "part")
      .node("Add", {"a", "part"}, "inner");
  b.node("Mul", {"inner", "k"}, "scaled").node("Tanh", {"scaled"}, "t").node("Add", {"t", "one"}, "up");
  b.node("Mul", {"a", "up"}, "m").node("Mul", {"m", "half"}, "z");
}

/// Its sum goes straight into the next product.
void prelu_by_relus(GraphBuilder& b) {
  b.constant("slope", {}, {.25F})
      .node("Relu", {"a"}, "up")
      .node("Neg", {"a"}, "n")
      .node("Relu", {"n"}, "down");
  b.node("Mul", {"down", "slope"}, "leak").node("Sub", {"up", "leak"}, "z");
}

void softmax_by_exp(GraphBuilder& b) {
  const std::map<std::string, Attribute> last{{"axes", Ints{-1}}, {"keepdims", std::int64_t{1}}};
  b.weight("mask", {1, 4, 6}).node("Identity", {"a"}, "scores").node("Abs", {"mask0"}, "masked");
  b.graph.initializers["mask0"] = b.graph.initializers["mask"];
  b.node("Add", {"scores", "masked"}, "s")
      .node("ReduceMax", {"s"}, "top", last)
      .node("Sub", {"s", "top"}, "below");
  b.graph.initializers["axes"] = Tensor::ints({1}, Ints{-1});
  b.node("Exp", {"below"}, "e")
      .node("ReduceSum", {"e", "axes"}, "total", {{"keepdims", std::int64_t{1}}})
      .node("Div", {"e", "total"}, "z");
}

void rotation(GraphBuilder& b) {
  b.weight("cos", {1, 4, 6}).weight("sin", {1, 4, 6}).node("Neg", {"a"}, "n");
  b.node("Mul", {"a", "cos"}, "p").node("Mul", {"n", "sin"}, "q").node("Add", {"p", "q"}, "z");
}

void gate(GraphBuilder& b) {
  b.constant("one", {}, {1})
      .node("Sigmoid", {"a"}, "g")
      .node("Sub", {"one", "g"}, "rest")
      .node("Tanh", {"a"}, "t");
  b.node("Mul", {"g", "a"}, "p").node("Mul", {"rest", "t"}, "q").node("Add", {"p", "q"}, "z");
}

/// Only the statistics: what is left when a norm has no scale.
void centring(GraphBuilder& b) {
  b.graph.initializers["shape"] = Tensor::ints({3}, Ints{1, 4, 6});
  b.node("ReduceMean", {"a"}, "mean", {{"axes", Ints{-1}}, {"keepdims", std::int64_t{1}}});
  b.node("Expand", {"mean", "shape"}, "means").node("Sub", {"a", "means"}, "z");
}

TEST_CASE("placement: what only computes a function has no quantizers inside, however many nodes it has") {
  const std::vector<Part> parts = {[](auto& b) { layer_norm_by_squares(b, false); },
                                   [](auto& b) { layer_norm_by_squares(b, true); },
                                   gelu_by_tanh,
                                   prelu_by_relus,
                                   softmax_by_exp,
                                   rotation,
                                   gate,
                                   centring};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CAPTURE(i);
    GraphBuilder b({1, 4, 6});
    b.weight("v", {6, 6}).weight("w", {6, 3}).node("MatMul", {"x", "v"}, "a");
    parts[i](b);
    b.node("MatMul", {"z", "w"}, "y");
    CHECK(edges_of(b) == "x z");
    // Nor where it is the branch of a residual sum, which stays one.
    GraphBuilder r({1, 4, 6});
    r.weight("v", {6, 6}).weight("w", {6, 3}).weight("u", {6, 6}).node("MatMul", {"x", "v"}, "a");
    parts[i](r);
    r.node("MatMul", {"z", "u"}, "branch")
        .node("Add", {"branch", "a"}, "sum")
        .node("MatMul", {"sum", "w"}, "y");
    const std::string found = edges_of(r);
    for (const char* value : {"x", "a", "z", "branch", "sum"})
      CHECK((" " + found + " ").find(" " + std::string(value) + " ") != std::string::npos);
    CHECK(std::ranges::count(found, ' ') == 4);
  }
}

TEST_CASE("placement: spectra stay in floats, powers or logarithms, through slices or concatenations") {
  for (const bool logarithm : {false, true}) {
    for (const char* square : {"Mul", "Pow"}) {
      GraphBuilder b({1, 1, 32});
      b.weight("dft", {8, 1, 8}).constant("two", {}, {2}).constant("eps", {}, {1e-6F}).weight("w", {3, 4, 1});
      b.graph.initializers["zero"] = Tensor::ints({1}, Ints{0});
      b.graph.initializers["four"] = Tensor::ints({1}, Ints{4});
      b.graph.initializers["eight"] = Tensor::ints({1}, Ints{8});
      b.graph.initializers["one"] = Tensor::ints({1}, Ints{1});
      const auto squared = [&](const std::string& in, const std::string& out) {
        b.node(square, {in, std::string(square) == "Mul" ? in : "two"}, out);
      };
      b.node("Conv", {"x", "dft"}, "s")
          .node("Slice", {"s", "zero", "four", "one"}, "re")
          .node("Slice", {"s", "four", "eight", "one"}, "im");
      squared("re", "re2");
      squared("im", "im2");
      b.node("Add", {"re2", "im2"}, "power");
      if (logarithm) b.node("Add", {"power", "eps"}, "safe").node("Log", {"safe"}, "z");
      b.node("Conv", {logarithm ? "z" : "power", "w"}, "y");
      CHECK(edges_of(b) == (logarithm ? "z" : "power"));
      CHECK(edges_of(b, "", Placement::kEverywhere).starts_with("x "));
    }
  }
}

TEST_CASE("placement: sums and concatenations have quantizers where integers go on") {
  GraphBuilder b({1, 3, 8, 8});
  b.weight("u", {4, 3, 1, 1}).weight("v", {4, 4, 1, 1}).weight("w", {2, 8, 1, 1});
  b.node("Conv", {"x", "u"}, "a").node("Conv", {"a", "v"}, "c").node("Add", {"a", "c"}, "sum");
  b.node("Concat", {"sum", "a"}, "both", {{"axis", std::int64_t{1}}});
  GraphBuilder ends = b;
  ends.node("Sigmoid", {"both"}, "y");
  CHECK(edges_of(ends) == "x a");
  GraphBuilder goes_on = b;
  goes_on.node("Relu", {"both"}, "r").node("Conv", {"r", "w"}, "y");
  CHECK(edges_of(goes_on) == "x a c r");
  GraphBuilder joined = b;
  joined.node("MaxPool", {"both"}, "m", {{"kernel_shape", Ints{2, 2}}}).node("Conv", {"m", "w"}, "y");
  CHECK(edges_of(joined) == "x a c sum");
  // What a rule names is quantized.
  CHECK(edges_of(ends, "rules: [{match: {op: Concat}, activations: uint8}]") == "x a sum");
}

TEST_CASE("placement: what cannot be negative") {
  GraphBuilder b({1, 4, 6});
  b.constant("two", {}, {2}).constant("half", {}, {.5F}).constant("minus", {}, {-1}).weight("w", {6, 6});
  b.constant("positive", {6, 2}, std::vector<float>(12, .5F));
  b.node("Mul", {"x", "x"}, "squares").node("Pow", {"x", "two"}, "powers").node("Abs", {"x"}, "magnitudes");
  b.node("Sqrt", {"squares"}, "roots").node("Exp", {"x"}, "exp").node("Sigmoid", {"x"}, "gate");
  b.node("Relu", {"x"}, "up").node("Add", {"up", "squares"}, "sum").node("Mul", {"up", "gate"}, "gated");
  b.node("MatMul", {"up", "positive"}, "mel")
      .node("Max", {"x", "half"}, "above")
      .node("Add", {"sum", "half"}, "shifted");
  b.node("Mul", {"up", "minus"}, "down")
      .node("Mul", {"x", "gate"}, "swish")
      .node("Sub", {"sum", "half"}, "less");
  b.node("MatMul", {"up", "w"}, "any")
      .node("Max", {"x", "minus"}, "from_minus")
      .node("HardSwish", {"x"}, "hard");
  b.node("Add", {"swish", "less"}, "y");
  const Graph graph = b.done();
  const Links links(graph);
  for (const char* value : {"squares", "powers", "magnitudes", "roots", "exp", "gate", "up", "sum", "gated",
                            "mel", "above", "shifted"}) {
    CAPTURE(value);
    CHECK(is_nonnegative(graph, links, value));
  }
  for (const char* value : {"x", "down", "swish", "less", "any", "from_minus", "hard"}) {
    CAPTURE(value);
    CHECK_FALSE(is_nonnegative(graph, links, value));
  }
}

}  // namespace
}  // namespace crumb::graph
