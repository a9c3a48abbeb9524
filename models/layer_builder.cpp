#include "models/layer_builder.h"

#include <algorithm>
#include <numbers>

#include "graph/buffers.h"
#include "graph/edit.h"

namespace crumb::models {

LayerBuilder::LayerBuilder(ModelWeights& weights, std::int64_t opset) : weights_(weights), opset_(opset) {
  graph_.opsets[std::string(graph::kOnnxDomain)] = opset;
}

void LayerBuilder::input(const std::string& name, const graph::Value& value) {
  graph_.inputs.push_back(name);
  names_.insert(name);
  graph_.values[name] = value;
}

void LayerBuilder::output(const std::string& value, const std::string& name, const graph::Shape& shape) {
  for (graph::Node& node : graph_.nodes) {
    std::ranges::replace(node.inputs, value, name);
    std::ranges::replace(node.outputs, value, name);
  }
  names_.insert(name);
  output_of(name, shape);
}

void LayerBuilder::output_of(const std::string& value, const graph::Shape& shape) {
  graph_.outputs.push_back(value);
  graph_.values[value] = {.type = graph::ElementType::kFloat, .shape = shape};
}

std::string LayerBuilder::unused(const std::string& requested) {
  size_t& next = suffixes_[requested];
  for (;; ++next) {
    const std::string name = next == 0 ? requested : requested + "_" + std::to_string(next);
    if (names_.insert(name).second) return name;
  }
}

std::string LayerBuilder::node(const std::string& op, const std::string& name,
                               const std::vector<std::string>& inputs,
                               const std::map<std::string, graph::Attribute>& attributes) {
  const std::string output = unused(name);
  graph_.nodes.push_back({.name = output,
                          .op = op,
                          .version = opset_,
                          .inputs = inputs,
                          .outputs = {output},
                          .attributes = attributes});
  return output;
}

void LayerBuilder::node_of_outputs(const std::string& op, const std::string& name,
                                   const std::vector<std::string>& inputs,
                                   const std::vector<std::string>& outputs,
                                   const std::map<std::string, graph::Attribute>& attributes) {
  graph_.nodes.push_back({.name = unused(name),
                          .op = op,
                          .version = opset_,
                          .inputs = inputs,
                          .outputs = outputs,
                          .attributes = attributes});
  names_.insert(outputs.begin(), outputs.end());
}

std::string LayerBuilder::constant(const std::string& requested, const graph::Tensor& tensor) {
  for (const std::string& name : constants_) {
    if (graph_.initializers.at(name) == tensor) return name;
  }
  const std::string& made = constants_.emplace_back(add_constant(graph_, unused(requested), tensor));
  if (graph::is_float(tensor.type())) graph::add_buffer(graph_, made);
  return made;
}

std::string LayerBuilder::floats(const std::string& requested, float value) {
  return constant(requested, graph::Tensor::scalar(value));
}

std::string LayerBuilder::scalar(const std::string& requested, std::int64_t value) {
  return constant(requested, graph::Tensor::scalar(value));
}

std::string LayerBuilder::ints(const std::string& requested, const std::vector<std::int64_t>& values) {
  return constant(requested, graph::Tensor::ints({static_cast<std::int64_t>(values.size())}, values));
}

std::string LayerBuilder::row(const std::string& requested, const std::vector<float>& values) {
  return constant(requested, graph::Tensor::floats({static_cast<std::int64_t>(values.size())}, values));
}

void LayerBuilder::add_weight(const std::string& name, const std::vector<size_t>& shape,
                              const std::vector<std::int64_t>& axes) {
  weights_.add(graph_, name, shape, axes);
  names_.insert(name);
}

std::string LayerBuilder::weight(const std::string& name, const std::vector<size_t>& shape) {
  std::vector<std::int64_t> axes(shape.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  add_weight(name, shape, axes);
  return name;
}

std::string LayerBuilder::linear(const std::string& name, const std::string& x, size_t in, size_t out,
                                 bool has_bias) {
  add_weight(name + ".weight", {out, in}, {1, 0});
  const std::string product = node("MatMul", name, {x, name + ".weight"});
  if (!has_bias) return product;
  return node("Add", name + ".add_bias", {product, weight(name + ".bias", {out})});
}

std::string LayerBuilder::layer_norm(const std::string& name, const std::string& x, size_t width,
                                     float epsilon, bool has_bias) {
  const bool early = !weights_.has(name + ".weight") && weights_.has(name + ".gamma");
  const std::string scale = weight(name + (early ? ".gamma" : ".weight"), {width});
  std::vector<std::string> inputs = {x, scale};
  if (has_bias) inputs.push_back(weight(name + (early ? ".beta" : ".bias"), {width}));
  return node("LayerNormalization", name, inputs, {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
}

std::string LayerBuilder::rms_norm(const std::string& name, const std::string& x, size_t width, float epsilon,
                                   bool plus_one) {
  std::string scale = weight(name + ".weight", {width});
  if (plus_one) scale = node("Add", name + ".scale", {scale, floats("one", 1)});
  return node("RMSNormalization", name, {x, scale}, {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
}

std::string LayerBuilder::reduce(const std::string& op, const std::string& name, const std::string& x,
                                 const std::vector<std::int64_t>& axes, bool keeps_axes) {
  // Axes became an input in set 13 for sums and in 18 for the others.
  std::map<std::string, graph::Attribute> how{{"keepdims", static_cast<std::int64_t>(keeps_axes)}};
  if (opset_ >= 18 || op == "ReduceSum") return node(op, name, {x, ints("reduced_axes", axes)}, how);
  how["axes"] = axes;
  return node(op, name, {x}, how);
}

std::string LayerBuilder::gelu(const std::string& name, const std::string& x) {
  constexpr float kInverseRoot = static_cast<float>(1 / std::numbers::sqrt2);
  const std::string scaled = node("Mul", name + ".scaled", {x, floats("one_by_root_two", kInverseRoot)});
  const std::string erf = node("Erf", name + ".erf", {scaled});
  const std::string twice_phi = node("Add", name + ".erf_and_one", {erf, floats("one", 1)});
  const std::string twice = node("Mul", name + ".twice", {x, twice_phi});
  return node("Mul", name, {twice, floats("half", 0.5F)});
}

std::string LayerBuilder::gelu_tanh(const std::string& name, const std::string& x) {
  constexpr float kRoot = 0.7978845608F;  // sqrt(2 / pi)
  const std::string square = node("Mul", name + ".square", {x, x});
  const std::string cube = node("Mul", name + ".cube", {square, x});
  const std::string part = node("Mul", name + ".part_of_cube", {cube, floats("gelu_factor", 0.044715F)});
  const std::string sum = node("Add", name + ".sum", {x, part});
  const std::string scaled = node("Mul", name + ".scaled", {sum, floats("root_of_two_by_pi", kRoot)});
  const std::string tanh = node("Tanh", name + ".tanh", {scaled});
  const std::string twice_phi = node("Add", name + ".tanh_and_one", {tanh, floats("one", 1)});
  const std::string twice = node("Mul", name + ".twice", {x, twice_phi});
  return node("Mul", name, {twice, floats("half", 0.5F)});
}

std::string LayerBuilder::activation(Activation activation, const std::string& name, const std::string& x) {
  const bool is_operator = opset_ >= 24;
  switch (activation) {
    case Activation::kGelu: return is_operator ? node("Gelu", name, {x}) : gelu(name, x);
    case Activation::kGeluTanh:
      return is_operator ? node("Gelu", name, {x}, {{"approximate", std::string("tanh")}})
                         : gelu_tanh(name, x);
    case Activation::kSilu:
      return is_operator ? node("Swish", name, {x})
                         : node("Mul", name, {x, node("Sigmoid", name + ".sigmoid", {x})});
    case Activation::kRelu: return node("Relu", name, {x});
    case Activation::kTanh: return node("Tanh", name, {x});
    case Activation::kIdentity: break;
  }
  return x;
}

}  // namespace crumb::models
