#include "bench/torch/networks.h"

#include <torch/types.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libtorch/execute/typed_tensor.h"

namespace crumb::bench {
namespace {

using graph::Graph;
using graph::Node;

at::Tensor constant_of(const Graph& graph, const std::string& name) {
  const graph::Tensor* found = graph.constant(name);
  return found ? libtorch::to_typed(*found).tensor : at::Tensor();
}

/// Rounds to half even; the files' zero points are 0.
struct Quantizer {
  bool bipolar = false;
  at::Tensor scale;
  double number = 1;  ///< the scale, where it is one
  double lo = 0, hi = 0;

  Quantizer(const Graph& graph, const Node& node)
      : bipolar(node.op == "BipolarQuant"), scale(constant_of(graph, node.inputs.at(1))) {
    if (scale.numel() == 1) number = scale.item<double>();
    if (bipolar) return;
    const double bits = constant_of(graph, node.inputs.at(3)).item<double>();
    const bool is_signed = node.int_or("signed", 1) != 0, narrow = node.int_or("narrow", 0) != 0;
    const double all = std::exp2(is_signed ? bits - 1 : bits);
    hi = all - 1 - (narrow && !is_signed ? 1 : 0);
    lo = is_signed ? -all + (narrow ? 1 : 0) : 0;
  }

  at::Tensor operator()(const at::Tensor& x) const {
    if (bipolar) return at::where(x >= 0, scale, -scale);
    if (scale.numel() > 1) return x.div(scale).clamp_(lo, hi).round_().mul_(scale);
    return x.div(number).clamp_(lo, hi).round_().mul_(number);
  }
};

struct Layer {
  at::Tensor weight, bias;
  std::vector<at::Tensor> norm;  ///< scale, bias, mean, variance
  double epsilon = 0;
  bool relu = false;  ///< behind the norm, and behind what moves pixels
  std::optional<Quantizer> quantizer;

  at::Tensor normalized(const at::Tensor& x) const {
    if (norm.empty()) return x;
    return at::batch_norm(x, norm[0], norm[1], norm[2], norm[3], false, 0, epsilon, false);
  }
  at::Tensor quantized(const at::Tensor& x) const { return quantizer ? (*quantizer)(x) : x; }
};

/// The layers of a chain in order: a weight, what normalizes behind it, the quantizer behind that.
struct Layers {
  std::optional<Quantizer> input;
  bool input_relu = false;
  std::vector<Layer> layers;
  std::map<std::string, const Node*> others;  ///< the last of each operator
};

Layers layers_of(const Graph& graph, bool quantizers) {
  Layers found;
  std::map<std::string, at::Tensor> weights;  // quantized, by value
  for (const Node& node : graph.nodes) {
    const auto weight = [&](std::size_t i) {
      const auto made = weights.find(node.inputs.at(i));
      return made != weights.end() ? made->second : constant_of(graph, node.inputs.at(i));
    };
    if (graph::is_quantizer(node)) {
      const Quantizer quantizer(graph, node);
      if (graph.constant(node.inputs.at(0))) {
        weights[node.outputs[0]] = quantizer(constant_of(graph, node.inputs[0]));
      } else if (quantizers) {
        (found.layers.empty() ? found.input : found.layers.back().quantizer) = quantizer;
      }
    } else if (node.op == "Transpose" && weights.contains(node.inputs.at(0))) {
      weights[node.outputs[0]] = weights[node.inputs[0]];  // LibTorch's linear takes it as it was
    } else if (node.op == "Conv" || node.op == "MatMul") {
      found.layers.push_back({weight(1),
                              node.has_input(2) ? constant_of(graph, node.inputs[2]) : at::Tensor(),
                              {},
                              0,
                              false,
                              std::nullopt});
    } else if (node.op == "BatchNormalization" && !found.layers.empty()) {
      for (std::size_t i = 1; i <= 4; ++i) found.layers.back().norm.push_back(weight(i));
      found.layers.back().epsilon = node.float_or("epsilon", 1e-5F);
    } else if (node.op == "Relu") {
      (found.layers.empty() ? found.input_relu : found.layers.back().relu) = true;
    } else {
      found.others[node.op] = &node;
    }
  }
  return found;
}

/// Pixels to [-1, 1], three layers of 64 and one of 10, whose one channel is normalized.
Network perceptron(const Graph& graph, const Layers& parts) {
  const auto number = [&](const char* op, std::size_t input) {
    const Node* node = parts.others.at(op);
    return constant_of(graph, node->inputs.at(input)).item<double>();
  };
  const Node* subtract = parts.others.at("Sub");  // the last one
  const double mean = constant_of(graph, subtract->inputs.at(1)).item<double>();
  const double deviation = std::pow(number("Pow", 0), number("Pow", 1));
  const double scale = number("Mul", 1), bias = number("Add", 1);
  return [=](const at::Tensor& image) {
    at::Tensor x = image.reshape({image.size(0), -1}).mul(2).sub_(1);
    if (parts.input) x = (*parts.input)(x);
    for (const Layer& layer : parts.layers)
      x = layer.quantized(layer.normalized(at::linear(x, layer.weight)));
    return x.sub_(mean).div_(deviation).mul_(scale).add_(bias);
  };
}

/// Four convolutions; the picture grows by pixel shuffle at the end, or by repeating pixels before the last of them.
Network super_resolution(const Layers& parts) {
  const auto shuffle = parts.others.find("DepthToSpace");
  const std::int64_t factor = shuffle == parts.others.end() ? 0 : shuffle->second->int_or("blocksize", 1);
  return [=](const at::Tensor& image) {
    at::Tensor x = parts.input_relu ? at::relu(image) : image;
    if (parts.input) x = (*parts.input)(x);
    for (std::size_t i = 0; i < parts.layers.size(); ++i) {
      const Layer& layer = parts.layers[i];
      const bool last = i + 1 == parts.layers.size();
      if (last && factor == 0) x = at::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)});
      const std::int64_t pad = layer.weight.size(2) / 2;
      x = layer.normalized(at::conv2d(x, layer.weight, layer.bias, 1, pad));
      if (last && factor > 0) x = at::pixel_shuffle(x, factor);
      if (layer.relu) x = at::relu_(x);
      x = layer.quantized(x);
    }
    return x;
  };
}

bool is(const Graph& graph, const std::vector<std::string>& ops, std::size_t products) {
  std::size_t found = 0;
  std::map<std::string, bool> seen;
  for (const Node& node : graph.nodes) {
    seen[node.op] = true;
    found += node.op == "Conv" || node.op == "MatMul";
  }
  for (const std::string& op : ops) {
    if (!seen.contains(op)) return false;
  }
  return found == products && graph.inputs.size() == 1;
}

}  // namespace

Network write_network(const Graph& graph, bool quantizers) {
  const bool mlp = is(graph, {"MatMul", "BatchNormalization", "Pow", "Mul", "Add", "Sub"}, 4);
  const bool images = is(graph, {"Conv", "DepthToSpace"}, 4) || is(graph, {"Conv", "Resize"}, 4);
  if (!mlp && !images) return {};
  const Layers parts = layers_of(graph, quantizers);
  return mlp ? perceptron(graph, parts) : super_resolution(parts);
}

}  // namespace crumb::bench
