// What rules say of activations and weights in all combinations, and what their fixes write.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

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

TEST_CASE("fix: behind a Relu a signed quantizer loses its sign and a bit, where that says the same") {
  for (const float bits : {1.0F, 2.0F, 3.0F, 8.0F}) {
    for (const bool narrow : {false, true}) {
      for (const float zero : {0.0F, 1.0F}) {
        for (const bool says_signed : {true, false}) {
          CAPTURE(bits);
          CAPTURE(narrow);
          CAPTURE(zero);
          CAPTURE(says_signed);
          graph::NodeBuilder net;
          const S x = net.input("x", {1, 3});
          net.graph.values[x].annotations["finn_datatype"] = "INT8";  // of whole numbers none is a tie
          const S y = net.quant(net.node("Relu", {x}), Tensor::scalar(1.0F), zero, bits, true, narrow);
          if (!says_signed) net.graph.nodes.back().attributes.erase("signed");
          net.graph.outputs = {y};
          const Graph graph = graph::infer_shapes(net.graph), fixed = fix(graph, Profile::kFinn);
          CHECK(says(said_by(graph, Profile::kFinn, "activation-sign"), {"it is signed behind", "(Relu)"}));
          if (bits == 1) continue;
          if (zero != 0 || !says_signed) {
            CHECK(std::ranges::none_of(fixed.nodes, is_quant));
            CHECK(only(fixed, "MultiThreshold").has_output(0));
            continue;
          }
          const Node& quantizer = only(fixed, "Quant");
          CHECK(constant_input(fixed, quantizer, kBits)->to_floats() == std::vector<float>{bits - 1});
          CHECK(quantizer.int_or("signed", -1) == 0);
          CHECK(quantizer.int_or("narrow", -1) == 0);
        }
      }
    }
  }
}

TEST_CASE("fix: one signed bit becomes a BipolarQuant of nothing but a scale") {
  for (const float scale : {1.0F, 0.5F, 1.5F, 0.0F, -0.5F}) {
    for (const float zero : {0.0F, 1.0F}) {
      CAPTURE(scale);
      CAPTURE(zero);
      graph::NodeBuilder net;
      net.graph.outputs = {net.quant(net.input("x", {1, 3}), Tensor::scalar(scale), zero, 1)};
      const Graph graph = graph::infer_shapes(net.graph);
      const bool can = scale > 0 && scale <= 1 && zero == 0;
      CHECK(said_by(graph, Profile::kHls4ml, "one-bit") ==
            S("found a signed Quant of 1 bit, expected BipolarQuant") + (can ? " [yes]" : " [no]"));
      const Graph fixed = fix(graph, Profile::kHls4ml);
      CHECK((std::ranges::count(fixed.nodes, S("BipolarQuant"), &Node::op) == 1) == can);
      if (!can) continue;
      const Node& bipolar = only(fixed, "BipolarQuant");
      CHECK(bipolar.inputs.size() == 2);
      CHECK(bipolar.attributes.empty());
      // The scale is multiplied by behind it.
      CHECK(constant_input(fixed, bipolar, kScale)->to_floats() == std::vector<float>{1});
      CHECK(std::ranges::count(fixed.nodes, S("Mul"), &Node::op) == (scale == 1 ? 0 : 1));
      if (scale != 1) {
        CHECK(constant_input(fixed, only(fixed, "Mul"), 1)->to_floats() == std::vector<float>{scale});
        CHECK(only(fixed, "Mul").outputs == fixed.outputs);
      }
    }
  }
}

TEST_CASE("lint: an activation's scales are one, for FINN also one for each channel on axis 1") {
  struct Case {
    Sizes data, scale;
    bool finn, others;  // taken
  };
  for (const Case& it : std::vector<Case>{{{1, 4}, {}, true, true},
                                          {{1, 4}, {1}, true, true},
                                          {{1, 4}, {1, 4}, true, false},
                                          {{1, 2}, {1, 2}, true, false},
                                          {{1, 2}, {2}, true, false},
                                          {{2, 1}, {2, 1}, false, false},
                                          {{1, 2, 3}, {1, 2, 1}, true, false},
                                          {{1, 2, 3}, {2, 1}, true, false},
                                          {{1, 2, 3}, {1, 1, 3}, false, false},
                                          {{1, 2, 3}, {3}, false, false},
                                          {{1, 2, 3}, {1, 2, 3}, false, false},
                                          {{1, 2, 3, 3}, {1, 2, 1, 1}, true, false},
                                          {{1, 2, 3, 3}, {2, 1, 1}, true, false},
                                          {{1, 2, 3, 3}, {1, 1, 3, 1}, false, false}}) {
    for (const bool alike : {false, true}) {
      CAPTURE(it.data);
      CAPTURE(it.scale);
      CAPTURE(alike);
      std::vector<float> scales(static_cast<std::size_t>(graph::count_elements(it.scale).take()), 0.5F);
      if (!alike && scales.size() > 1) scales.back() = 0.25F;
      graph::NodeBuilder net;
      net.graph.outputs = {net.quant(net.input("x", it.data), Tensor::floats(it.scale, scales), 0, 4)};
      const Graph graph = graph::infer_shapes(net.graph);
      const S fixable = alike ? " [yes]" : " [no]";
      const S finn = said_by(graph, Profile::kFinn, "activation-scale"),
              others = said_by(graph, Profile::kHls4ml, "activation-scale");
      CHECK(finn.empty() == it.finn);
      CHECK(others.empty() == it.others);
      if (!it.finn) CHECK(finn.ends_with("expected one number, or one for each channel on axis 1" + fixable));
      if (!it.others) CHECK(others.ends_with("expected one number" + fixable));
      if (alike) {  // one number for all
        const Graph fixed = fix(graph, Profile::kHls4ml);
        CHECK(constant_input(fixed, only(fixed, "Quant"), kScale)->size() == 1);
      }
    }
  }
}

TEST_CASE("lint: scales of bits, of activations and of weights") {
  for (const bool is_weight : {false, true}) {
    for (const float scale : {1.0F, 0.5F}) {
      CAPTURE(is_weight);
      CAPTURE(scale);
      graph::NodeBuilder net;
      const S x = net.input("x", {1, 2});
      const S data = is_weight ? net.constant("w", Tensor::floats({1, 2}, std::vector<float>{1, -1})) : x;
      const S bits =
          net.node("BipolarQuant", {data, net.constant("s", Tensor::scalar(scale))}, {}, kQonnxDomain);
      net.graph.outputs = {is_weight ? net.node("Mul", {x, bits}) : bits};
      const Graph graph = graph::infer_shapes(net.graph);
      for (const Profile profile : {Profile::kFinn, Profile::kHls4ml}) {
        const bool is_taken = scale == 1 || (is_weight && profile == Profile::kFinn);
        const S said = said_by(graph, profile, "bipolar-scale");
        CHECK(said.empty() == is_taken);
        if (!is_taken)
          CHECK(said == S("scale is 0.5, expected 1 and the scale as a Mul behind it") +
                            (is_weight ? " [no]" : " [yes]"));
      }
    }
  }
}

TEST_CASE("lint: what an Add adds has one scale, be it a quantizer's or that of thresholds") {
  using Make = std::function<S(graph::NodeBuilder&, const S&)>;
  const auto number = [](graph::NodeBuilder& net, float value) {
    return net.constant("n" + std::to_string(net.graph.initializers.size()), Tensor::scalar(value));
  };
  const auto steps = [&](graph::NodeBuilder& net, const S& x, std::map<S, graph::Attribute> attributes) {
    const S t = net.constant("t" + std::to_string(net.graph.initializers.size()),
                             Tensor::floats({1, 2}, std::vector<float>{0.5F, 1.5F}));
    attributes["data_layout"] = S("NC");
    return net.node("MultiThreshold", {x, t}, attributes, kQonnxDomain);
  };
  const std::vector<std::pair<std::optional<float>, Make>> all{
      {0.5F, [](auto& n, const S& x) { return n.quant(x, Tensor::scalar(0.5F), 0, 4); }},
      {0.25F, [](auto& n, const S& x) { return n.quant(x, Tensor::scalar(0.25F), 0, 4); }},
      {0.5F,
       [](auto& n, const S& x) {
         return n.quant(x, Tensor::floats({1, 2}, std::vector<float>{0.5F, 0.5F}), 0, 4);
       }},
      {{},
       [](auto& n, const S& x) {
         return n.quant(x, Tensor::floats({1, 2}, std::vector<float>{0.5F, 1}), 0, 4);
       }},
      {0.5F,
       [&](auto& n, const S& x) {
         return n.node("BipolarQuant", {x, number(n, 0.5F)}, {}, kQonnxDomain);
       }},
      {1.0F, [&](auto& n, const S& x) { return steps(n, x, {}); }},
      {0.5F,
       [&](auto& n, const S& x) {
         return steps(n, x, {{"out_scale", 0.5F}});
       }},
      {2.0F,
       [&](auto& n, const S& x) {
         return n.node("Mul", {steps(n, x, {{"out_scale", 0.5F}}), number(n, 4)});
       }},
      {0.25F,
       [&](auto& n, const S& x) {
         return n.node("Mul", {steps(n, x, {}), number(n, 0.25F)});
       }},
      {{},
       [&](auto& n, const S& x) {
         return n.node("Mul",
                       {steps(n, x, {}), n.constant("m", Tensor::floats({1, 2}, std::vector<float>{1, 2}))});
       }},
      {{},
       [&](auto& n, const S& x) {
         return n.node("Mul", {x, number(n, 0.25F)});
       }},
      {{}, [](auto& n, const S& x) { return n.node("Relu", {x}); }},
      {{}, [](auto&, const S& x) { return x; }},
      {{},
       [](auto& n, const S&) {
         return n.quant(n.constant("w", Tensor::floats({1, 2}, std::vector<float>{1, 2})),
                        Tensor::scalar(0.125F), 0, 6);
       }},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (i == k) continue;
      CAPTURE(i);
      CAPTURE(k);
      graph::NodeBuilder net;
      const S x = net.input("x", {1, 2});
      const S a = all[i].second(net, x), b = all[k].second(net, x);
      net.graph.outputs = {net.node("Add", {a, b})};
      const auto &one = all[i].first, &other = all[k].first;
      const S said = said_by(graph::infer_shapes(net.graph), Profile::kFinn, "residual-scale");
      const bool differ = one && other && *one != *other;
      CHECK(said ==
            (differ ? "it adds values of scale " + number_text(static_cast<double>(*one)) + " and of scale " +
                          number_text(static_cast<double>(*other)) + ", expected equal scales [no]"
                    : ""));
      net.graph.nodes.back().op = "Sub";
      CHECK(said_by(graph::infer_shapes(net.graph), Profile::kFinn, "residual-scale").empty());
    }
  }
}

TEST_CASE("lint: a weight goes into layers that can take its scale") {
  const std::set<S> of_finn{"Mul", "Div", "Conv", "MatMul", "Gather", "ConvTranspose", "Add", "Sub"},
      of_hls4ml{"Mul", "Div", "Conv", "MatMul", "Add", "Sub", "BatchNormalization", "PRelu", "Sum"},
      of_others{"Gemm", "Transpose"};  // rules of their own
  std::set<S> all{"Relu", "Reshape", "Concat", "Max", "Einsum"};
  for (const auto& set : {of_finn, of_hls4ml, of_others}) all.insert(set.begin(), set.end());
  for (const S& op : all) {
    for (const float scale : {1.0F, 0.5F}) {
      CAPTURE(op);
      CAPTURE(scale);
      graph::NodeBuilder net;
      const S x = net.input("x", {2, 2});
      const S w = net.quant(net.constant("w", Tensor::floats({2, 2}, std::vector<float>{1, 2, 3, 4})),
                            Tensor::scalar(scale), 0, 4);
      net.graph.outputs = {op == "Relu" || op == "Reshape" || op == "Transpose" ? net.node(op, {w})
                                                                                : net.node(op, {x, w})};
      const Graph& graph = net.graph;
      const auto is_taken = [&](const std::set<S>& set) {
        return set.contains(op) || of_others.contains(op);
      };
      const S finn = said_by(graph, Profile::kFinn, "weight-consumer"),
              hls4ml = said_by(graph, Profile::kHls4ml, "weight-consumer");
      CHECK(finn.empty() == (scale == 1 || is_taken(of_finn)));  // a scale of 1 need not be taken
      CHECK(hls4ml.empty() == is_taken(of_hls4ml));
      if (!hls4ml.empty()) CHECK(says(hls4ml, {"the quantized weight goes to", op.c_str()}));
    }
  }
}

TEST_CASE("lint: which of a weight's scales go with the layer that takes it") {
  struct Case {
    const char* op;
    Sizes weight, scale;
    bool finn, hls4ml;  // taken, where the scales differ
  };
  for (const Case& it : std::vector<Case>{{"MatMul", {2, 3}, {}, true, true},
                                          {"MatMul", {2, 3}, {1, 3}, true, false},
                                          {"MatMul", {2, 3}, {3}, true, false},
                                          {"MatMul", {2, 3}, {2, 1}, false, false},
                                          {"MatMul", {2, 3}, {2, 3}, false, false},
                                          {"Conv", {3, 2, 1, 1}, {3, 1, 1, 1}, true, true},
                                          {"Conv", {3, 2, 1, 1}, {1, 2, 1, 1}, false, false},
                                          {"Conv", {3, 2, 1, 2}, {1, 1, 1, 2}, false, false},
                                          {"Conv", {3, 2, 1, 2}, {2}, false, false},
                                          {"ConvTranspose", {2, 3, 1, 1}, {}, true, true},
                                          {"ConvTranspose", {2, 3, 1, 1}, {1, 3, 1, 1}, false, true},
                                          {"Mul", {1, 2}, {1, 2}, true, true}}) {
    for (const bool alike : {false, true}) {
      CAPTURE(S(it.op));
      CAPTURE(it.weight);
      CAPTURE(it.scale);
      CAPTURE(alike);
      std::vector<float> scales(static_cast<std::size_t>(graph::count_elements(it.scale).take()), 0.5F);
      if (!alike && scales.size() > 1) scales.back() = 0.25F;
      graph::NodeBuilder net;
      const S x = net.input("x", it.weight.size() == 2 ? Sizes{1, 2} : Sizes{1, 2, 4, 4});
      const auto count = static_cast<std::size_t>(graph::count_elements(it.weight).take());
      const S w = net.quant(net.constant("w", Tensor::floats(it.weight, std::vector<float>(count, 1))),
                            Tensor::floats(it.scale, scales), 0, 4);
      net.graph.outputs = {net.node(it.op, {x, w})};
      const S finn = said_by(net.graph, Profile::kFinn, "weight-scale"),
              hls4ml = said_by(net.graph, Profile::kHls4ml, "weight-scale");
      const bool is_matrix = S(it.op) == "MatMul";
      CHECK(finn.empty() == it.finn);
      CHECK(hls4ml.empty() == (it.hls4ml || (is_matrix && alike)));
      for (const S& said : {finn, hls4ml}) {
        if (!said.empty()) CHECK(said.ends_with(alike ? " [yes]" : " [no]"));
      }
    }
  }
}

TEST_CASE("lint: a constant stands second, and is moved where that is the same") {
  for (const char* op : {"Add", "Mul", "MatMul", "Sub", "Div"}) {
    for (const std::int64_t version : {6, 7, 13}) {
      for (const int constants : {0, 1, 2, 3}) {  // as bits: of the first, of the second input
        for (const bool is_quantized : {false, true}) {
          CAPTURE(S(op));
          CAPTURE(version);
          CAPTURE(constants);
          graph::NodeBuilder net;
          std::vector<S> inputs;
          for (const int at : {0, 1}) {
            const S name = at == 0 ? "a" : "b";
            S value = (constants >> at & 1) != 0
                          ? net.constant(name, Tensor::floats({2, 2}, std::vector<float>(4, 1)))
                          : net.input(name, {2, 2});
            if ((constants >> at & 1) != 0 && is_quantized)
              value = net.quant(value, Tensor::scalar(1.0F), 0, 4);
            inputs.push_back(value);
          }
          net.graph.outputs = {net.node(op, inputs)};
          net.graph.nodes.back().version = version;
          const S name = op;
          const bool commutes = name == "Add" || name == "Mul";
          const bool is_found = constants == 1 && (commutes || name == "MatMul");
          const S said = said_by(net.graph, Profile::kFinn, "constant-operand");
          CHECK(said.empty() == !is_found);
          if (is_found) CHECK(said.ends_with(commutes && version >= 7 ? " [yes]" : " [no]"));
          if (version != 13 || constants == 3) continue;
          const Graph fixed = fix(net.graph, Profile::kFinn);
          const Node& node = only(fixed, op);
          const bool is_swapped = is_found && commutes;
          CHECK(node.inputs[is_swapped ? 1 : 0].starts_with(inputs[0]));
          CHECK(node.inputs[is_swapped ? 0 : 1].starts_with(inputs[1]));
        }
      }
    }
  }
}

TEST_CASE("lint: scales are powers of two, whatever else they are") {
  for (const auto& [scales, said] :
       std::vector<std::pair<std::vector<float>, S>>{{{1}, ""},
                                                     {{0.25F, 4}, ""},
                                                     {{3}, "scale is 3"},
                                                     {{0.5F, 3, 5}, "scale is 3"},  // the first
                                                     {{0.75F}, "scale is 0.75"},
                                                     {{0}, ""},  // another rule's
                                                     {{-0.5F}, ""},
                                                     {{-3}, ""},
                                                     {{-3, 3}, "scale is 3"},
                                                     {{0x1p-126F}, ""}}) {
    CAPTURE_COPY(scales);
    graph::NodeBuilder net;
    const auto count = static_cast<std::int64_t>(scales.size());
    net.graph.outputs = {net.quant(net.input("x", {1, count}), Tensor::floats({1, count}, scales), 0, 4)};
    const S found = said_by(net.graph, Profile::kHls4ml, "power-of-two");
    CHECK(found.empty() == said.empty());
    CHECK(found.starts_with(said));
    CHECK(said_by(net.graph, Profile::kFinn, "power-of-two").empty());
  }
}

}  // namespace
}  // namespace crumb::exporting
