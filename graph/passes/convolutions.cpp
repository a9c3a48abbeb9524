// fold_batch_norm and extract_conv_bias.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"
#include "graph/passes/scaled_constant.h"
#include "graph/weighted_product.h"

namespace crumb::graph {
namespace {

/// Returns a product whose weight can absorb a factor on its output axis; nothing where it has no such axis:
/// a ConvTranspose of several groups has its outputs on two.
std::optional<WeightedProduct> scalable_product(const Graph& graph, const Node& node) {
  const Tensor* weight = constant_input(graph, node, 1);
  if (!weight || weight->type() != ElementType::kFloat) return {};
  const auto product = weighted_product(node, weight->shape().size());
  if (!product || (product->is_convolution() ? weight->rank() < 3 : weight->rank() != 2)) return {};
  if (product->terms == Terms::kTransposed && product->groups != 1) return {};
  return product;
}

struct Affine {
  std::vector<double> factor, shift;
};

/// y = x * factor + shift of a BatchNormalization in inference with constant parameters.
std::optional<Affine> affine_of(const Graph& graph, const Node& node) {
  if (!node.is("BatchNormalization") || node.int_or("training_mode", 0) != 0) return {};
  if (node.version < 7 && node.int_or("is_test", 0) == 0) return {};
  std::vector<float> parts[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const Tensor* part = constant_input(graph, node, i + 1);
    if (!part || part->type() != ElementType::kFloat || part->rank() != 1) return {};
    parts[i] = part->to_floats();
    if (parts[i].size() != parts[0].size()) return {};
  }
  const auto& [scale, bias, mean, variance] = parts;
  const double epsilon = node.float_or("epsilon", 1e-5F);
  Affine affine;
  for (std::size_t c = 0; c < scale.size(); ++c) {
    affine.factor.push_back(scale[c] / std::sqrt(variance[c] + epsilon));
    affine.shift.push_back(bias[c] - mean[c] * affine.factor.back());
  }
  return affine;
}

/// Returns the node that produces the value, if the value has one consumer and is no graph output.
std::size_t sole_source(const Links& links, const std::string& value) {
  if (links.consumers(value).size() != 1 || links.is_output(value)) return Links::kNone;
  return links.producer(value);
}

/// Nodes are removed at the end, so that indices and links stay valid: `now[i]` produces what node i did.
bool fold(Graph& graph, const Links& links, std::vector<std::size_t>& now, std::size_t at) {
  if (!graph.nodes[at].is("BatchNormalization")) return false;
  const Node norm = graph.nodes[at];
  const auto affine = affine_of(graph, norm);
  if (!affine || !norm.has_input(0) || !norm.has_output(0) || norm.outputs.size() > 1) return false;
  const std::size_t made_by = sole_source(links, norm.inputs[0]);
  if (made_by == Links::kNone) return false;
  const std::size_t source = now[made_by];
  const auto product = scalable_product(graph, graph.nodes[source]);
  if (!product) return false;
  const Tensor weight = *constant_input(graph, graph.nodes[source], 1);
  const std::size_t channels = affine->factor.size();
  if (static_cast<std::size_t>(weight.shape()[product->output_axis]) != channels) return false;
  const bool has_bias = product->bias != kNoInput;
  if (!has_bias && graph.rank_of(norm.inputs[0]) != std::size_t{2}) return false;
  const double beta = graph.nodes[source].float_or("beta", 1),
               alpha = graph.nodes[source].float_or("alpha", 1);
  std::vector<float> bias(channels, 0.0F);
  if (has_bias && graph.nodes[source].has_input(2)) {
    const Tensor* old = constant_input(graph, graph.nodes[source], 2);
    if (!old || old->type() != ElementType::kFloat) return false;
    bias = old->to_floats();
    if (bias.size() == 1) bias.assign(channels, bias[0]);
    if (bias.size() != channels ||
        (old->rank() > 1 && old->shape().back() != static_cast<std::int64_t>(channels))) {
      return false;
    }
  }
  for (std::size_t c = 0; c < channels; ++c) {
    bias[c] = static_cast<float>(beta * bias[c] * affine->factor[c] + affine->shift[c]);
  }
  const auto count = static_cast<std::int64_t>(channels);
  const std::string folded = add_constant(graph, graph.nodes[source].inputs[1] + "_folded",
                                          scaled_along(weight, product->output_axis, affine->factor));
  const std::string shift = add_constant(graph, norm.inputs[2] + "_folded", Tensor::floats({count}, bias));
  Node& node = graph.nodes[source];
  node.inputs[1] = folded;
  if (!has_bias) {  // MatMul: an Add replaces the BatchNormalization
    graph.nodes[at] = {.name = norm.name,
                       .op = "Add",
                       .version = norm.version,
                       .inputs = {norm.inputs[0], shift},
                       .outputs = {norm.outputs[0]}};
    return true;
  }
  node.inputs.resize(3);
  node.inputs[2] = shift;
  if (!product->is_convolution()) {  // Gemm
    node.attributes["beta"] = 1.0F;
    node.attributes["alpha"] = static_cast<float>(alpha);
  }
  node.outputs[0] = norm.outputs[0];
  graph.nodes[at] = {};
  now[at] = source;
  return true;
}

/// Returns the quantizer of a constant vector with its constants reshaped instead of its output; nothing
/// where an input is no constant, or has neither one number nor as many as the vector.
std::optional<Node> column_quantizer(Graph& graph, const Node& quantizer,
                                     const std::vector<std::int64_t>& column) {
  const Tensor* vector = constant_input(graph, quantizer, 0);
  if (!is_quantizer(quantizer) || !vector || vector->rank() != 1) return std::nullopt;
  for (std::size_t i = 0; i < quantizer.inputs.size(); ++i) {
    const Tensor* constant = constant_input(graph, quantizer, i);
    if (!constant || (constant->size() != 1 && constant->shape() != vector->shape())) return std::nullopt;
  }
  Node made = quantizer;
  for (std::string& input : made.inputs) {
    const Tensor& constant = graph.initializers.at(input);
    if (&input != &made.inputs[0] && constant.size() == 1) continue;
    std::vector<std::int64_t> shape = column;
    shape[1] = constant.size();
    input = add_constant(graph, input + "_column", constant.reshaped(shape));
  }
  made.outputs = {add_value(graph, quantizer.outputs[0] + "_column", {.type = ElementType::kFloat})};
  return made;
}

}  // namespace

Graph fold_batch_norm(Graph graph) {
  graph = infer_shapes(sorted(std::move(graph)));
  const Links links(graph);
  std::vector<std::size_t> now(graph.nodes.size());
  std::iota(now.begin(), now.end(), 0);
  for (std::size_t i = 0; i < now.size(); ++i) fold(graph, links, now, i);
  return tidy(std::move(graph));
}

Graph extract_conv_bias(Graph graph) {
  graph = infer_shapes(sorted(std::move(graph)));
  std::vector<Node> nodes;
  const auto quantizer_of = [&](const std::string& bias, const std::vector<std::int64_t>& column) {
    const auto maker = std::ranges::find_if(
        nodes, [&](const Node& node) { return is_quantizer(node) && node.outputs[0] == bias; });
    return maker == nodes.end() ? std::nullopt : column_quantizer(graph, *maker, column);
  };
  for (Node node : std::vector<Node>(graph.nodes)) {  // avoids the names of the graph's own nodes
    const Value* weight = node.has_input(1) ? graph.find(node.inputs[1]) : nullptr;
    const Tensor* constant = constant_input(graph, node, 1);
    const std::size_t rank = constant                  ? constant->shape().size()
                             : weight && weight->shape ? weight->shape->size()
                                                       : 0;
    if (!is_convolution(node) || !node.has_input(2) || !node.has_output(0) || rank < 3) {
      nodes.push_back(std::move(node));
      continue;
    }
    const std::string bias = node.inputs[2];
    const Value known = graph.values[node.outputs[0]];
    Node add{.name = graph.unused_node_name(node.name + "_bias"), .op = "Add", .version = graph.opset()};
    std::string shaped;
    std::vector<std::int64_t> shape(rank, 1);
    shape[1] = -1;
    if (const Tensor* values = graph.constant(bias)) {
      shape[1] = values->size();
      shaped = add_constant(graph, bias + "_column", values->reshaped(shape));
    } else if (auto quantizer = quantizer_of(bias, shape)) {
      quantizer->name = graph.unused_node_name(node.name + "_bias_quant");
      shaped = quantizer->outputs[0];
      nodes.push_back(std::move(*quantizer));
    } else {  // a bias that is computed
      const std::string target =
          add_constant(graph, bias + "_shape", Tensor::ints({static_cast<std::int64_t>(rank)}, shape));
      shaped = add_value(graph, bias + "_column", {.type = ElementType::kFloat});
      nodes.push_back({.name = graph.unused_node_name(node.name + "_bias_shape"),
                       .op = "Reshape",
                       .version = graph.opset(),
                       .inputs = {bias, target},
                       .outputs = {shaped}});
    }
    add.outputs = {node.outputs[0]};
    node.outputs[0] = add_value(graph, node.outputs[0] + "_no_bias", known);
    node.inputs.resize(2);
    add.inputs = {node.outputs[0], shaped};
    nodes.push_back(std::move(node));
    nodes.push_back(std::move(add));
  }
  graph.nodes = std::move(nodes);
  return tidy(infer_shapes(std::move(graph)));
}

}  // namespace crumb::graph
