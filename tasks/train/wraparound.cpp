#include "tasks/train/wraparound.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>

#include "analysis/accumulator/layers.h"
#include "base/error.h"
#include "libtorch/execute/graph_module.h"

namespace crumb::tasks {

using libtorch::TypedTensor;

struct WrappingLayer {
  graph::Node node;
  std::string input;
  double input_scale = 1;  // value of a unit
  at::Tensor codes;        // float64: [channels, length], or a convolution's weight
  at::Tensor scales;       // float64 [channels], of the sums
  at::Tensor bias;         // float64 [channels], codes in the register
  bool is_convolution = false;

  /// Returns the sums over codes for these inputs; every intermediate number is below 2^53.
  at::Tensor sums(const at::Tensor& input_values) const {
    const at::Tensor x = (input_values.to(at::kDouble) / input_scale).round();
    if (!is_convolution) return at::matmul(x, codes.t()) + bias;
    const auto pads = node.ints_or("pads", {0, 0, 0, 0});
    const at::Tensor padded = at::constant_pad_nd(x, {pads[1], pads[3], pads[0], pads[2]});
    return at::conv2d(padded, codes, bias, node.ints_or("strides", {1, 1}), at::IntArrayRef({0, 0}),
                      node.ints_or("dilations", {1, 1}), node.int_or("group", 1));
  }

  at::Tensor scales_like(const at::Tensor& sum) const {
    return is_convolution ? scales.view({1, -1, 1, 1}).expand_as(sum) : scales.expand_as(sum);
  }
};

namespace {

WrappingLayer layer_of(const analysis::ProductLayer& product, const graph::Node& node) {
  const bool plain_conv = product.kind == analysis::ProductLayer::Kind::kConvolution && node.is("Conv") &&
                          product.weight_shape.size() == 4 && node.text_or("auto_pad", "NOTSET") == "NOTSET";
  const bool plain_matrix = product.kind == analysis::ProductLayer::Kind::kMatrix && !product.weight_first;
  if (!product.weight_failure.empty() || !product.one_scale || !product.input_scale ||
      !(plain_conv || plain_matrix)) {
    throw Error("the products of " + graph::text_of(node) + " cannot be added up in narrow registers: " +
                (product.weight_failure.empty()
                     ? product.input_scale ? "expected one scale for each channel" : product.input_failure
                     : product.weight_failure));
  }
  WrappingLayer layer{.node = node, .input = product.input};
  layer.input_scale = *product.input_scale * product.input_unit;
  layer.is_convolution = plain_conv;
  const auto channels = static_cast<std::int64_t>(product.channels);
  const auto length = static_cast<std::int64_t>(product.length);
  const auto doubles = [](const auto& values, at::IntArrayRef shape) {
    at::Tensor tensor = at::zeros(shape, at::kDouble);
    std::copy(values.begin(), values.end(), tensor.data_ptr<double>());
    return tensor;
  };
  layer.codes = doubles(product.codes, {channels, length});
  if (plain_conv) layer.codes = layer.codes.view(product.weight_shape);
  layer.scales = doubles(product.scale, {channels}) * (product.unit * layer.input_scale);
  layer.bias = at::zeros({channels}, at::kDouble);
  if (product.bias == graph::BiasPlace::kInside) layer.bias = doubles(product.bias_codes, {channels});
  return layer;
}

/// Reduces sums to [-2^(bits-1), 2^(bits-1)) by whole multiples of 2^bits.
at::Tensor wrapped(const at::Tensor& sums, int bits) {
  const double half = std::ldexp(1.0, bits - 1);
  return (sums + half).remainder(2 * half) - half;
}

}  // namespace

struct WrappingNetwork::Data {
  explicit Data(const graph::Graph& frozen) : module(frozen) {
    const analysis::ProductLayers products(frozen);
    std::vector<std::size_t> weighted;
    for (std::size_t i = 0; i < products.size(); ++i) {
      if (products.has_constant_weight(i)) weighted.push_back(i);
    }
    for (std::size_t at = 1; at + 1 < weighted.size(); ++at) {
      const graph::Node& node = products.node(weighted[at]);
      layers.emplace(node.outputs[0], layer_of(products.layer(weighted[at]), node));
    }
  }

  libtorch::GraphModule module;
  std::map<std::string, WrappingLayer> layers;  // by the output's name
};

WrappingNetwork::WrappingNetwork(const graph::Graph& frozen) : data_(std::make_shared<const Data>(frozen)) {}

std::vector<at::Tensor> WrappingNetwork::run(const std::vector<at::Tensor>& inputs, int bits) const {
  const torch::NoGradGuard no_gradients;
  std::map<std::string, at::Tensor> made_before;  // the values that the layers take
  for (const auto& [output, layer] : data_->layers) made_before[layer.input];
  const auto watch = [&](const std::string& value, TypedTensor made) {
    if (const auto found = data_->layers.find(value); found != data_->layers.end()) {
      const WrappingLayer& layer = found->second;
      const at::Tensor sums = layer.sums(made_before.at(layer.input));
      const at::Tensor change = (wrapped(sums, bits) - sums) * layer.scales_like(sums);
      made.tensor = (made.tensor.to(at::kDouble) + change).to(made.tensor.scalar_type());
    }
    if (const auto wanted = made_before.find(value); wanted != made_before.end())
      wanted->second = made.tensor;
    return made;
  };
  std::vector<TypedTensor> given;
  for (const at::Tensor& input : inputs) given.push_back(libtorch::typed(input.clone()));
  return libtorch::tensors_of(data_->module.run(std::move(given), watch));
}

}  // namespace crumb::tasks
