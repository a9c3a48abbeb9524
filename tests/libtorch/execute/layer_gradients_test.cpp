// Layers let gradients through: those that autograd finds are the slopes of the outputs.
#include <torch/utils.h>

#include "tests/support/torch_doctest.h"
//
#include <functional>
#include <string>
#include <vector>

#include "libtorch/execute/graph_module.h"

using crumb::graph::Attribute;
using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::libtorch::GraphModule;
using crumb::libtorch::typed;
using crumb::libtorch::TypedTensor;

namespace {

using Ints = std::vector<std::int64_t>;

struct Layer {
  const char* op;
  std::int64_t version;
  std::vector<Ints> inputs;  ///< shapes; none: left out
  std::map<std::string, Attribute> attributes;
  std::vector<at::Tensor> more = {};  ///< inputs behind those, which want no gradient
};

GraphModule module_of(const Layer& layer) {
  Graph graph;
  Node node{.name = "layer", .op = layer.op, .domain = "", .version = layer.version, .outputs = {"y"}};
  node.attributes = layer.attributes;
  for (std::size_t i = 0; i < layer.inputs.size() + layer.more.size(); ++i) {
    const bool there = i >= layer.inputs.size() || !layer.inputs[i].empty();
    node.inputs.push_back(there ? "x" + std::to_string(i) : "");
    if (there) graph.inputs.push_back(node.inputs.back());
  }
  graph.nodes = {node};
  graph.outputs = {"y"};
  graph.opsets[""] = layer.version;
  return GraphModule(graph);
}

/// A sum over the outputs in which every one of them counts differently.
at::Tensor weighed(const GraphModule& module, const Layer& layer, const std::vector<at::Tensor>& inputs) {
  std::vector<TypedTensor> values;
  for (const at::Tensor& input : inputs) values.push_back(typed(input));
  for (const at::Tensor& input : layer.more) values.push_back(typed(input));
  const at::Tensor y = module.run(values)[0].tensor;
  return (y * at::arange(1, y.numel() + 1, y.options()).cos().reshape(y.sizes())).sum();
}

const Ints kPads = {1, 0, 0, 2};

const std::vector<Layer> kLayers = {
    {"Conv", 11, {{2, 4, 5, 4}, {6, 2, 2, 3}, {6}}, {{"group", std::int64_t{2}}, {"pads", kPads}}},
    {"Conv", 11, {{1, 2, 7}, {3, 2, 3}}, {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2}}}},
    {"ConvTranspose", 11, {{1, 2, 3, 2}, {2, 3, 2, 2}, {3}}, {{"strides", Ints{2, 1}}, {"pads", kPads}}},
    {"DeformConv", 19, {{1, 2, 4, 3}, {2, 2, 2, 2}, {1, 8, 3, 2}, {2}, {1, 4, 3, 2}}, {}},
    {"Col2Im", 18, {{1, 8, 6}}, {}, {torch::tensor(Ints{3, 4}), torch::tensor(Ints{2, 2})}},
    {"AveragePool",
     19,
     {{1, 2, 5, 6}},
     {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 1}}, {"pads", kPads}}},
    {"MaxPool", 12, {{1, 2, 5, 6}}, {{"kernel_shape", Ints{2, 3}}, {"pads", kPads}}},
    {"LpPool", 18, {{1, 2, 5, 6}}, {{"kernel_shape", Ints{2, 3}}, {"p", std::int64_t{3}}}},
    {"GlobalLpPool", 2, {{1, 2, 5}}, {}},
    {"BatchNormalization",
     15,
     {{2, 3, 4}, {3}, {3}},
     {},
     {torch::rand({3}, at::kDouble), torch::rand({3}, at::kDouble)}},
    {"BatchNormalization",
     15,
     {{3, 2, 4}, {2}, {2}},
     {{"training_mode", std::int64_t{1}}},
     {torch::zeros({2}, at::kDouble), torch::ones({2}, at::kDouble)}},
    {"InstanceNormalization", 6, {{2, 3, 4}, {3}, {3}}, {}},
    {"LayerNormalization", 17, {{2, 3, 4}, {4}, {4}}, {}},
    {"GroupNormalization", 21, {{2, 4, 3}, {4}, {4}}, {{"num_groups", std::int64_t{2}}}},
    {"RMSNormalization", 23, {{2, 3, 4}, {3, 4}}, {{"axis", std::int64_t{1}}}},
    {"LpNormalization", 22, {{3, 4}}, {}},
    {"LRN", 13, {{1, 5, 2, 2}}, {{"size", std::int64_t{3}}}},
    {"MeanVarianceNormalization", 13, {{2, 3, 2, 2}}, {}},
    {"LSTM", 14, {{3, 2, 2}, {1, 12, 2}, {1, 12, 3}, {1, 24}}, {}},
    {"LSTM", 14, {{3, 2, 2}, {1, 12, 2}, {1, 12, 3}, {1, 24}, {}, {1, 2, 3}, {1, 2, 3}, {1, 9}}, {}},
    {"GRU", 14, {{3, 2, 2}, {2, 9, 2}, {2, 9, 3}, {2, 18}}, {{"direction", std::string("bidirectional")}}},
    {"GRU", 14, {{3, 2, 2}, {1, 9, 2}, {1, 9, 3}}, {{"linear_before_reset", std::int64_t{1}}}},
    {"RNN", 14, {{3, 2, 2}, {1, 3, 2}, {1, 3, 3}}, {{"direction", std::string("reverse")}}},
    {"Attention", 23, {{1, 4, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 3}}, {{"is_causal", std::int64_t{1}}}},
    {"RotaryEmbedding", 23, {{1, 2, 3, 4}, {1, 3, 2}, {1, 3, 2}}, {}},
    {"SoftmaxCrossEntropyLoss", 13, {{3, 4}}, {}, {torch::tensor(Ints{0, 3, 1})}},
};

}  // namespace

TEST_CASE("gradients of layers are their slopes") {
  torch::manual_seed(5);
  for (const Layer& layer : kLayers) {
    CAPTURE(layer.op);
    const GraphModule module = module_of(layer);
    std::vector<at::Tensor> inputs;
    for (const Ints& shape : layer.inputs) {
      if (!shape.empty()) inputs.push_back(torch::randn(shape, at::kDouble).requires_grad_());
    }
    weighed(module, layer, inputs).backward();
    torch::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(i);
      REQUIRE(inputs[i].grad().defined());
      const at::Tensor towards = torch::randn(inputs[i].sizes(), at::kDouble);
      const auto moved = [&](double by) {
        std::vector<at::Tensor> there = inputs;
        there[i] = inputs[i] + towards * by;
        return weighed(module, layer, there).item<double>();
      };
      const double step = 1e-6, slope = (moved(step) - moved(-step)) / (2 * step);
      const double found = (inputs[i].grad() * towards).sum().item<double>();
      CHECK(found == doctest::Approx(slope).epsilon(1e-5));
    }
  }
}
