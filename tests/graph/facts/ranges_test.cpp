// Ranges of whole numbers through operators: what must be unknown, what is counted by hand, and what a file claims.
#include <doctest/doctest.h>

#include <functional>
#include <set>

#include "analysis/accumulator/check.h"
#include "graph/facts/contradictions.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/facts/range_rules.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"
#include "tests/graph/node_builder.h"
#include "tests/support/samples.h"

namespace crumb::graph {
namespace {

using testing::says;
using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

struct Net : NodeBuilder {
  /// Signed codes of 3 bits times 0.5 behind an input.
  std::string q(const std::string& name, const Ints& shape = {2, 4}, float scale = 0.5F, float zero = 0,
                bool is_signed = true) {
    return quant(input(name, shape), Tensor::scalar(scale), zero, 3, is_signed);
  }
  std::string number(float value) {
    return constant("k" + std::to_string(graph.initializers.size()), Tensor::scalar(value));
  }
  std::string floats(const Ints& shape, const Floats& values) {
    return constant("k" + std::to_string(graph.initializers.size()), Tensor::floats(shape, values));
  }
  std::string ints(const Ints& values) {
    return constant("k" + std::to_string(graph.initializers.size()),
                    Tensor::ints({static_cast<std::int64_t>(values.size())}, values));
  }
  std::string at_version(std::int64_t version, const std::string& op, std::vector<std::string> inputs,
                         std::map<std::string, Attribute> attributes = {}) {
    const std::string made = node(op, std::move(inputs), std::move(attributes));
    graph.nodes.back().version = version;
    return made;
  }
};

using Make = std::function<std::string(Net&)>;

std::optional<Levels> levels_of(const Make& make) {
  Net net;
  const std::string value = make(net);
  net.graph.outputs = {value};
  const Graph graph = infer_shapes(without_claims(net.graph));
  const ConstantValues constants(graph);
  return infer_data_types(graph, constants, TypeRules::kExact).at(value).levels;
}

struct Case {
  const char* what;
  Make make;
};

TEST_CASE("operators that change their input's range do not keep it") {
  const Case cases[] = {
      {"channels-last BatchNormalization",
       [](Net& n) {
         return n.node("BatchNormalization",
                       {n.q("a"), n.floats({4}, Floats(4, 1000)), n.floats({4}, Floats(4, 0)),
                        n.floats({4}, Floats(4, 0)), n.floats({4}, Floats(4, 1))},
                       {}, kChannelsLastDomain);
       }},
      {"BatchNormalization",
       [](Net& n) {
         return n.node("BatchNormalization",
                       {n.q("a"), n.floats({4}, Floats(4, 1000)), n.floats({4}, Floats(4, 0)),
                        n.floats({4}, Floats(4, 0)), n.floats({4}, Floats(4, 1))});
       }},
      {"ScatterElements of others",
       [](Net& n) {
         return n.node("ScatterElements",
                       {n.q("a"), n.constant("i", Tensor::ints({1, 1}, Ints{0})), n.input("u", {1, 1})});
       }},
      {"ScatterND of others",
       [](Net& n) {
         return n.node("ScatterND",
                       {n.q("a"), n.constant("i", Tensor::ints({1, 1}, Ints{0})), n.input("u", {1, 4})});
       }},
      {"ScatterND that adds",
       [](Net& n) {
         return n.at_version(16, "ScatterND",
                             {n.q("a"), n.constant("i", Tensor::ints({1, 1}, Ints{0})), n.q("u", {1, 4})},
                             {{"reduction", std::string("add")}});
       }},
      {"Pad by a computed value",
       [](Net& n) {
         return n.node("Pad", {n.q("a"), n.ints({1, 0, 0, 0}), n.input("v", {})});
       }},
      {"Pad off the grid",
       [](Net& n) {
         return n.node("Pad", {n.q("a"), n.ints({1, 0, 0, 0}), n.number(0.3F)});
       }},
      {"Resize with a number outside",
       [](Net& n) {
         return n.node("Resize", {n.q("a", {1, 1, 4, 4}), "", n.floats({4}, {1, 1, 2, 2})},
                       {{"mode", std::string("nearest")},
                        {"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
                        {"extrapolation_value", 0.3F}});
       }},
      {"Resize between elements",
       [](Net& n) {
         return n.node("Resize", {n.q("a", {1, 1, 4, 4}), "", n.floats({4}, {1, 1, 2, 2})},
                       {{"mode", std::string("cubic")}});
       }},
      {"Upsample between elements",
       [](Net& n) {
         return n.at_version(9, "Upsample", {n.q("a", {1, 1, 4, 4}), n.floats({4}, {1, 1, 2, 2})},
                             {{"mode", std::string("linear")}});
       }},
      {"Dropout in training",
       [](Net& n) {
         return n.node("Dropout", {n.q("a"), n.number(0.5F),
                                   n.constant("t", Tensor(ElementType::kBool, {}, {std::byte{1}}))});
       }},
      {"Dropout of which nobody knows",
       [](Net& n) {
         return n.node("Dropout", {n.q("a"), n.number(0.5F), n.input("t", {})});
       }},
      {"Dropout before version 7", [](Net& n) { return n.at_version(6, "Dropout", {n.q("a")}); }},
      {"Clip by a computed bound",
       [](Net& n) {
         return n.node("Clip", {n.q("a"), n.input("v", {})});
       }},
      {"MaxPool whose windows may miss the input",
       [](Net& n) {
         return n.node("MaxPool", {n.q("a", {1, 1, 4, 4})},
                       {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{2, 2}}});
       }},
      {"a product of two",
       [](Net& n) {
         return n.node("Mul", {n.q("a"), n.q("b")});
       }},
      {"a product with zero",
       [](Net& n) {
         return n.node("Mul", {n.q("a"), n.number(0)});
       }},
      {"a sum of scales",
       [](Net& n) {
         return n.node("Add", {n.q("a"), n.q("b", {2, 4}, 0.25F)});
       }},
      {"a scale of zero",
       [](Net& n) {
         return n.q("a", {2, 4}, 0);
       }},
      {"a quarter as zero point",
       [](Net& n) {
         return n.q("a", {2, 4}, 0.5F, 0.25F);
       }},
      {"QuantAvgPool2d of steps of a half",
       [](Net& n) {
         return n.node("QuantAvgPool2d", {n.q("a", {1, 1, 4, 4})},
                       {{"kernel", std::int64_t{2}}, {"ibits", std::int64_t{3}}, {"obits", std::int64_t{3}}},
                       kQonnxDomain);
       }},
      {"computed thresholds",
       [](Net& n) {
         return n.node("MultiThreshold", {n.q("a"), n.input("t", {1, 3})},
                       {{"out_dtype", std::string("UINT2")}}, kQonnxDomain);
       }},
      {"LeakyRelu off the grid", [](Net& n) { return n.node("LeakyRelu", {n.q("a")}); }},
      {"another's domain", [](Net& n) { return n.node("Relu", {n.q("a")}, {}, "com.example"); }},
      {"MaxPool's indices",
       [](Net& n) {
         n.node("MaxPool", {n.q("a", {1, 1, 4, 4})}, {{"kernel_shape", Ints{2, 2}}});
         n.graph.nodes.back().outputs.push_back("indices");
         return std::string("indices");
       }},
  };
  for (const Case& one : cases) {
    CAPTURE(one.what);
    CHECK_FALSE(levels_of(one.make));
  }
}

TEST_CASE("what an operator without a row makes is unknown") {
  std::set<std::string> rows;
  for (const OperatorTraits& row : operator_rows()) {
    if (row.range == RangeForm::kUnknown) continue;
    CHECK(rows.insert(std::string(row.domain) + "." + std::string(row.op)).second);
  }
  for (const char* op :
       {"Softmax", "Sigmoid", "CumSum", "Einsum", "LSTM", "Elu", "Shrink", "Floor", "Mod", "Pow", "OneHot",
        "GridSample", "MaxUnpool", "LpPool", "InstanceNormalization", "Hardmax"}) {
    CAPTURE(op);
    CHECK_FALSE(rows.contains(std::string(".") + op));
    CHECK_FALSE(levels_of([&](Net& n) {
      const std::string a = n.q("a");
      return n.node(op, {a, a, a});
    }));
  }
}

struct Counted {
  const char* what;
  Make make;
  double low, high, scale;
};

TEST_CASE("ranges are those counted by hand") {
  const auto thresholds = [](int steps, float by, float bias) {
    return [=](Net& n) {
      Floats table;
      for (int i = 0; i < steps; ++i) table.push_back(static_cast<float>(i));
      return n.node("MultiThreshold", {n.input("a", {2, 4}), n.floats({1, steps}, table)},
                    {{"out_dtype", std::string("INT4")}, {"out_scale", by}, {"out_bias", bias}},
                    kQonnxDomain);
    };
  };
  const auto average = [](std::int64_t ibits, std::int64_t obits) {
    return [=](Net& n) {
      return n.node("QuantAvgPool2d", {n.q("a", {1, 1, 4, 4}, 1, 0, false)},
                    {{"kernel", std::int64_t{2}}, {"ibits", ibits}, {"obits", obits}}, kQonnxDomain);
    };
  };
  const Counted cases[] = {
      {"thresholds are counted", thresholds(40, 1, 0), 0, 40, 1},
      {"and scaled", thresholds(40, 2, -1), -1, 79, 1},
      {"and scaled by no whole number", thresholds(3, 0.5F, 1), 2, 5, 0.5},
      {"QuantAvgPool2d, as wide as it says", average(3, 3), 0, 28 / 4, 1},
      {"QuantAvgPool2d of more bits than it says", average(1, 3), 0, 28, 1},
      {"Clip",
       [](Net& n) {
         return n.node("Clip", {n.q("a"), n.number(-1), n.number(1)});
       },
       -2, 2, 0.5},
      {"Clip above all",
       [](Net& n) {
         return n.node("Clip", {n.q("a"), n.number(50), n.number(60)});
       },
       100, 100, 0.5},
      {"Pad by a number",
       [](Net& n) {
         return n.node("Pad", {n.q("a"), n.ints({1, 0, 0, 0}), n.number(50)});
       },
       -4, 100, 0.5},
      {"Scatter",
       [](Net& n) {
         return n.node("ScatterND", {n.q("a"), n.constant("i", Tensor::ints({1, 1}, Ints{0})),
                                     n.floats({1, 4}, Floats(4, 50))});
       },
       -4, 100, 0.5},
      {"Neg", [](Net& n) { return n.node("Neg", {n.q("a")}); }, -3, 4, 0.5},
      {"Abs", [](Net& n) { return n.node("Abs", {n.q("a")}); }, 0, 4, 0.5},
      {"times a negative",
       [](Net& n) {
         return n.node("Mul", {n.number(-3), n.q("a")});
       },
       -3, 4, 1.5},
      {"over a negative",
       [](Net& n) {
         return n.node("Div", {n.q("a"), n.number(-2)});
       },
       -3, 4, 0.25},
      {"plus a constant on the grid",
       [](Net& n) {
         return n.node("Add", {n.q("a"), n.floats({4}, {1, 2, 0, -1})});
       },
       -6, 7, 0.5},
      {"less itself",
       [](Net& n) {
         return n.node("Sub", {n.number(1), n.q("a")});
       },
       -1, 6, 0.5},
      {"Sum",
       [](Net& n) {
         return n.node("Sum", {n.q("a"), n.q("b"), n.q("c")});
       },
       -12, 9, 0.5},
      {"Mean",
       [](Net& n) {
         return n.node("Mean", {n.q("a"), n.q("b")});
       },
       -8, 6, 0.25},
      {"AveragePool",
       [](Net& n) {
         return n.node("AveragePool", {n.q("a", {1, 1, 4, 4})}, {{"kernel_shape", Ints{2, 2}}});
       },
       -16, 12, 0.125},
      {"GlobalAveragePool",
       [](Net& n) {
         return n.node("GlobalAveragePool", {n.q("a", {1, 1, 4, 4})});
       },
       -64, 48, 0.5 / 16},
      {"LeakyRelu",
       [](Net& n) {
         return n.node("LeakyRelu", {n.q("a")}, {{"alpha", 0.25F}});
       },
       -4, 12, 0.125},
      {"PRelu",
       [](Net& n) {
         return n.node("PRelu", {n.q("a"), n.floats({4}, {0, 2, -3, 1})});
       },
       -8, 12, 0.5},
      {"Sign",
       [](Net& n) {
         return n.node("Sign", {n.input("a", {2, 4})});
       },
       -1, 1, 1},
      {"Relu", [](Net& n) { return n.node("Relu", {n.q("a")}); }, 0, 3, 0.5},
      {"Relu under a negative scale",
       [](Net& n) {
         return n.node("Relu", {n.q("a", {2, 4}, -0.5F)});
       },
       -4, 3, -0.5},
      {"Relu of halves",
       [](Net& n) {
         return n.node("Relu", {n.q("a", {2, 4}, 0.5F, 0.5F)});
       },
       0, 5, 0.25},
      {"Max",
       [](Net& n) {
         return n.node("Max", {n.q("a"), n.number(1)});
       },
       2, 3, 0.5},
      {"Upsample",
       [](Net& n) {
         return n.at_version(9, "Upsample", {n.q("a", {1, 1, 4, 4}), n.floats({4}, {1, 1, 2, 2})});
       },
       -4, 3, 0.5},
      {"a node's integers",
       [](Net& n) {
         return n.node("Constant", {}, {{"value", Tensor::ints({3}, Ints{-3, 5, 2})}});
       },
       -3, 5, 1},
      {"Scatter, as it was called first",
       [](Net& n) {
         return n.at_version(9, "Scatter",
                             {n.q("a"), n.constant("i", Tensor::ints({1, 4}, Ints{0, 1, 0, 1})),
                              n.floats({1, 4}, Floats(4, 50))});
       },
       -4, 100, 0.5},
      {"QuantizeLinear",
       [](Net& n) {
         const std::string zero = n.constant("z", Tensor(ElementType::kInt8, {}, {std::byte{5}}));
         return n.node("QuantizeLinear", {n.input("a", {2, 4}), n.number(0.5F), zero});
       },
       -128, 127, 1},
      {"half a bit, narrow: the lower bound is above the other",
       [](Net& n) {
         return n.node("Quant", {n.input("a", {2, 4}), n.number(0.5F), n.number(-4), n.number(0.5F)},
                       {{"narrow", std::int64_t{1}}, {"rounding_mode", std::string("FLOOR")}}, kQonnxDomain);
       },
       4, 4, 0.5},
  };
  for (const Counted& one : cases) {
    CAPTURE(one.what);
    const auto levels = levels_of(one.make);
    REQUIRE(levels);
    CHECK(levels->low == one.low);
    CHECK(levels->high == one.high);
    CHECK(levels->scale == one.scale);
    CHECK_FALSE(levels->assumed);
  }
}

TEST_CASE("integers that wrap around are as wide as their type") {
  const auto sum_of = [](std::int8_t high) {
    return levels_of([&](Net& n) {
      const auto byte = [&](const char* name, std::int8_t value) {
        return n.constant(name, Tensor(ElementType::kInt8, {}, {static_cast<std::byte>(value)}));
      };
      const std::string zero = byte("z", 0);
      const std::string codes = n.node("QuantizeLinear", {n.input("a", {4}), n.number(0.5F), zero});
      const std::string cut = n.node("Clip", {codes, byte("l", -4), byte("h", high)});
      return n.at_version(14, "Add", {cut, cut});
    });
  };
  CHECK(sum_of(50)->high == 100);
  CHECK(sum_of(100)->high == 127);
  CHECK(sum_of(100)->low == -128);
}

TEST_CASE("what is said of a graph's inputs is an assumption, and named so") {
  Net net;
  const std::string x = net.input("x", {2, 4});
  net.graph.values["x"].annotations["finn_datatype"] = "UINT4";
  const std::string w = net.quant(net.floats({4, 1}, {1, -2, 3, 1}), Tensor::scalar(1.0F), 0, 4);
  net.graph.outputs = {net.node("MatMul", {net.node("Relu", {x}), w}), net.node("MatMul", {net.q("y"), w})};
  const analysis::AccumulatorReport report = analysis::check_accumulators(net.graph);
  REQUIRE(report.layers.size() == 2);
  CHECK(report.layers[0].input == IntegerRange{0, 15});
  CHECK(report.layers[0].assumed);
  CHECK_FALSE(report.layers[1].assumed);
  CHECK(report.layers[1].input_step == 0.5);
}

TEST_CASE("channels-last makes nothing known that was not") {
  Net net;
  const std::string a = net.q("a", {1, 4, 4, 4}, 0.5F, 0, false);
  const std::string norm =
      net.node("BatchNormalization", {a, net.floats({4}, Floats(4, 1000)), net.floats({4}, Floats(4, 0)),
                                      net.floats({4}, Floats(4, 0)), net.floats({4}, Floats(4, 1))});
  const std::string w = net.quant(net.floats({2, 4, 1, 1}, Floats(8, 1)), Tensor::scalar(1.0F), 0, 4);
  net.graph.outputs = {net.node("Conv", {norm, w}, {{"kernel_shape", Ints{1, 1}}})};
  const Graph before = infer_shapes(net.graph), after = channels_last(before);
  for (const Graph& graph : {before, after}) {
    const analysis::AccumulatorReport report = analysis::check_accumulators(graph, {.ranges = {}, .bits = 9});
    REQUIRE(report.layers.size() == 1);
    CHECK_FALSE(report.layers[0].input);
    CHECK(report.failures.size() == 1);
  }
}

TEST_CASE("what a file says inside is compared, not believed") {
  const auto failures = [](const std::function<void(Net&)>& change) {
    Net net;
    const std::string w = net.quant(net.floats({4, 1}, {1, -2, 3, 1}), Tensor::scalar(1.0F), 0, 4);
    const std::string x = net.q("x", {2, 4}, 1);
    const std::string y = net.node("Relu", {x});
    net.graph.outputs = {net.node("MatMul", {y, w})};
    net.graph.values[x].annotations["finn_datatype"] = "INT3";
    net.graph.values[y].annotations["finn_datatype"] = "INT3";
    change(net);
    return analysis::check_accumulators(net.graph).failures;
  };
  const char *x = "Quant1_out", *y = "Relu2_out";
  CHECK(failures([](Net&) {}).empty());
  const auto annotate = [&](const std::string& value, const std::string& type) {
    return failures([&](Net& n) { n.graph.values[value].annotations["finn_datatype"] = type; });
  };
  CHECK(annotate(x, "INT8").empty());
  CHECK(annotate(y, "UINT2").empty());
  CHECK(says(annotate(x, "UINT3").at(0), {x, "UINT3", "-4..3"}));
  CHECK(says(annotate(x, "INT2").at(0), {x, "INT2"}));
  CHECK(says(annotate(y, "BIPOLAR").at(0), {y, "BIPOLAR"}));
  CHECK(says(annotate(y, "INT").at(0), {y, "unknown data type"}));
  CHECK(says(annotate("k0", "UINT4").at(0), {"k0", "it holds -2"}));
  CHECK(says(failures([&](Net& n) { n.graph.values[y].type = ElementType::kInt8; }).at(0),
             {y, "int8", "float"}));
}

TEST_CASE("types that attributes claim are compared with what the operator makes") {
  const auto claims = [](const char* type, int steps) {
    Net net;
    net.graph.outputs = {
        net.node("MultiThreshold",
                 {net.input("a", {2, 4}), net.floats({1, steps}, Floats(static_cast<std::size_t>(steps), 1))},
                 {{"out_dtype", std::string(type)}, {"out_scale", 2.0F}, {"out_bias", -1.0F}}, kQonnxDomain)};
    return contradictions(net.graph);
  };
  CHECK(claims("BIPOLAR", 1).empty());
  CHECK(claims("INT4", 4).empty());
  CHECK(says(claims("INT4", 5).at(0).what, {"MultiThreshold0", "claims INT4", "-1..9"}));
  CHECK(says(claims("UINT4", 1).at(0).what, {"claims UINT4", "-1..1"}));
}

TEST_CASE("an initializer is what its numbers are, whatever its annotation says") {
  const auto levels = levels_of([](Net& n) {
    const std::string c = n.floats({2, 4}, {0, 1, 100, 0, 0, 0, 0, 0});
    n.graph.values[c].annotations["finn_datatype"] = "INT2";
    return n.node("Concat", {c, n.q("a", {2, 4}, 1)}, {{"axis", std::int64_t{0}}});
  });
  REQUIRE(levels);
  CHECK(levels->high == 100);
}

TEST_CASE("shapes that a file states inside are not believed") {
  Net net;
  const std::string mean = net.node("GlobalAveragePool", {net.q("x", {1, 4, 4, 4}, 1)});
  const std::string w = net.quant(net.floats({4, 1}, {1, -2, 3, 1}), Tensor::scalar(1.0F), 0, 4);
  net.graph.values[net.graph.nodes[0].outputs[0]] = {.type = ElementType::kFloat, .shape = Shape{1, 4, 1, 1}};
  net.graph.outputs = {net.node("MatMul", {net.node("Flatten", {mean}), w})};
  const analysis::AccumulatorReport report = analysis::check_accumulators(net.graph);
  REQUIRE(report.layers.size() == 1);
  CHECK(report.layers[0].input == IntegerRange{-64, 48});
}

}  // namespace
}  // namespace crumb::graph
