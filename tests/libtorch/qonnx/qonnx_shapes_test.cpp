// Shapes inferred for QONNX's operators are the shapes that execution makes.

#include <random>

#include "graph/onnx/infer_shapes.h"
#include "libtorch/execute/graph_module.h"
#include "tests/support/torch_doctest.h"

using crumb::graph::Attribute;
using crumb::graph::Dim;
using crumb::graph::ElementType;
using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::Shape;
using crumb::libtorch::GraphModule;
using crumb::libtorch::typed;
using crumb::libtorch::TypedTensor;

namespace {

using Ints = std::vector<std::int64_t>;

Graph graph_of(const char* op, std::string_view domain, std::map<std::string, Attribute> attributes,
               const std::vector<Ints>& shapes, std::int64_t version = 1) {
  Graph graph;
  graph.name = "shapes";
  graph.opsets = {{"", 13}, {std::string(domain), version}};
  Node node{.name = "node", .op = op, .domain = std::string(domain), .version = version};
  node.attributes = std::move(attributes);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "in" + std::to_string(i);
    graph.inputs.push_back(name);
    graph.values[name] = {.type = ElementType::kFloat, .shape = Shape(shapes[i].begin(), shapes[i].end())};
    node.inputs.push_back(name);
  }
  node.outputs = {"out"};
  graph.outputs = {"out"};
  graph.values["out"] = {};
  graph.nodes.push_back(std::move(node));
  return graph;
}

std::string inferred(const Graph& graph) {
  const Graph known = crumb::graph::infer_shapes(graph);
  const auto* value = known.find("out");
  if (value->shape) CHECK(value->type == ElementType::kFloat);
  return value->shape ? crumb::graph::text_of(*value->shape) : "nothing";
}

std::string executed(const Graph& graph) {
  std::vector<TypedTensor> inputs;
  for (const std::string& name : graph.inputs) {
    Ints sizes;
    for (const Dim& dim : *graph.values.at(name).shape) sizes.push_back(dim.size);
    inputs.push_back(typed(torch::ones(sizes)));
  }
  const auto outputs = GraphModule(graph).run(std::move(inputs));
  Shape shape;
  for (const std::int64_t size : outputs.at(0).tensor.sizes()) shape.emplace_back(size);
  return crumb::graph::text_of(shape);
}

void check(const Graph& graph) { CHECK(inferred(graph) == executed(graph)); }

}  // namespace

TEST_CASE("QONNX shapes: windows of many sizes") {
  std::mt19937 random(7);
  const auto pick = [&](int least, int most) {
    return std::int64_t{std::uniform_int_distribution<int>(least, most)(random)};
  };
  for (int trial = 0; trial < 60; ++trial) {
    const Ints x = {pick(1, 3), pick(6, 11), pick(6, 11), 4};
    const Ints kernel = {pick(1, 3), pick(1, 3)}, stride = {pick(1, 3), pick(1, 3)};
    const Ints dilation = {pick(1, 2), pick(1, 2)};
    const Ints half = {pick(0, kernel[0] / 2), pick(0, kernel[1] / 2)};
    const Ints even = {half[0], half[1], half[0], half[1]};
    const Ints uneven = {pick(0, 2), pick(0, 2), pick(0, 2), pick(0, 2)};
    check(graph_of(
        "Im2Col", crumb::graph::kQonnxDomain,
        {{"kernel_size", kernel}, {"stride", stride}, {"dilations", dilation}, {"pad_amount", uneven}}, {x}));
    check(graph_of("MaxPoolNHWC", crumb::graph::kQonnxDomain,
                   {{"kernel_shape", kernel}, {"strides", stride}, {"pads", even}, {"ceil_mode", pick(0, 1)}},
                   {x}));
    check(graph_of("QuantAvgPool2d", crumb::graph::kQonnxDomain,
                   {{"kernel", kernel[0]},
                    {"stride", stride[0]},
                    {"ibits", std::int64_t{4}},
                    {"obits", std::int64_t{4}},
                    {"data_layout", std::string(trial % 2 ? "NHWC" : "NCHW")}},
                   {trial % 2 ? x : Ints{x[0], 4, x[1], x[2]}}));
    check(graph_of("Conv", crumb::graph::kChannelsLastDomain,
                   {{"kernel_shape", kernel}, {"strides", stride}, {"dilations", dilation}, {"pads", uneven}},
                   {x, {5, kernel[0], kernel[1], 4}}, 13));
    check(graph_of("Conv", crumb::graph::kChannelsLastDomain,
                   {{"strides", stride}, {"auto_pad", std::string("SAME_UPPER")}},
                   {x, {5, kernel[0], kernel[1], 4}}));
    check(graph_of("MaxPool", crumb::graph::kChannelsLastDomain,
                   {{"kernel_shape", kernel}, {"strides", stride}, {"pads", even}}, {x}, trial % 2 ? 1 : 13));
  }
}

TEST_CASE("QONNX shapes: products, batch normalization, quantizers") {
  using crumb::graph::kChannelsLastDomain;
  using crumb::graph::kQonnxDomain;
  check(graph_of("XnorPopcountMatMul", kQonnxDomain, {}, {{3, 4}, {4, 5}}));
  check(graph_of("XnorPopcountMatMul", kQonnxDomain, {}, {{2, 3, 4}, {4, 5}}));
  check(graph_of("XnorPopcountMatMul", kQonnxDomain, {}, {{2, 1, 3, 4}, {6, 4, 5}}));
  check(graph_of("XnorPopcountMatMul", kQonnxDomain, {}, {{4}, {4, 5}}));
  for (const std::int64_t version : {1, 9, 13, 14}) {
    check(graph_of("BatchNormalization", kChannelsLastDomain, {}, {{2, 5, 3}, {3}, {3}, {3}, {3}}, version));
  }
  check(graph_of("Quant", kQonnxDomain, {}, {{2, 3}, {}, {}, {}}));
  check(graph_of("Trunc", kQonnxDomain, {}, {{2, 3}, {}, {}, {}, {}}));
  check(graph_of("Trunc", kQonnxDomain, {}, {{2, 3}, {}, {}, {}, {}, {}}, 2));
}

TEST_CASE("QONNX shapes: what is not known stays unknown") {
  Graph graph = graph_of("Im2Col", crumb::graph::kQonnxDomain,
                         {{"kernel_size", Ints{3, 3}}, {"stride", Ints{1, 1}}}, {{1, 8, 8, 2}});
  graph.values["in0"].shape = Shape{Dim("batch"), Dim(8), Dim(), Dim(2)};
  const std::string text = inferred(graph);  // the library makes up a symbol for the width
  CHECK(text.starts_with("[batch, 6, "));
  CHECK(text.ends_with(", 18]"));
  CHECK(text.find("8") == text.size() - 2);
  graph.values["in0"].shape = Shape{Dim(1), Dim(8)};  // not four axes: no shape, and no error
  CHECK(inferred(graph) == "nothing");
}
