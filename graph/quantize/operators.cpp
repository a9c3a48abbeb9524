#include "graph/quantize/operators.h"

#include <algorithm>
#include <numeric>

#include "graph/branches.h"
#include "graph/edit.h"
#include "graph/operator_traits.h"
#include "graph/recurrent_cell.h"
#include "graph/weighted_product.h"

namespace crumb::graph {
namespace {

bool is_float(const Graph& graph, const std::string& value) {
  if (const Tensor* constant = graph.constant(value)) return constant->type() == ElementType::kFloat;
  if (graph.quantized.contains(value)) return true;
  const Value* known = graph.find(value);
  return known && known->type == ElementType::kFloat;
}

/// Returns the inputs of a node that are float32 and not constant.
std::vector<std::size_t> changing_floats(const Graph& graph, const Node& node, const Constants& constants) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool counts = node.has_input(i) && !constants.contains(node.inputs[i]);
    if (counts && is_float(graph, node.inputs[i])) found.push_back(i);
  }
  return found;
}

bool have_one_shape(const Graph& graph, const Node& node, const std::vector<std::size_t>& inputs) {
  const auto first = graph.shape_of(node.inputs[inputs[0]]);
  if (!first) return false;
  return std::ranges::all_of(inputs, [&](std::size_t i) {
    const auto shape = graph.shape_of(node.inputs[i]);
    const auto is_told = [](const Dim& dim) { return dim.known() || !dim.symbol.empty(); };
    return shape == first && std::ranges::all_of(*shape, is_told);
  });
}

bool pads_with_zero(const Graph& graph, const Node& node) {
  if (node.text_or("mode", "constant") != "constant") return true;
  if (node.version < 11) return node.float_or("value", 0) == 0;
  if (!node.has_input(2)) return true;
  const Tensor* value = graph.constant(node.inputs[2]);
  return value && value->size() == 1 && value->to_floats()[0] == 0;
}

/// Returns Einsum's constant operand, of two. Its output axis is a label that the result has and the other
/// operand does not; of several labels the longest, which gives the most scales. None where it has no such
/// label, or labels that are not single axes.
std::vector<WeightInput> equation_weights(const Graph& graph, const Node& node, const Constants& constants) {
  std::string equation = node.text_or("equation", "");
  std::erase(equation, ' ');
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  if (node.inputs.size() != 2 || comma == std::string::npos || equation.find("...") != std::string::npos)
    return {};
  const std::string terms[] = {equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1)};
  const auto count = [&](char label) {
    return std::ranges::count(terms[0], label) + std::ranges::count(terms[1], label);
  };
  const auto is_result = [&](char label) {
    return arrow == std::string::npos ? count(label) == 1
                                      : equation.find(label, arrow + 2) != std::string::npos;
  };
  if (constants.contains(node.inputs[0]) == constants.contains(node.inputs[1])) return {};
  const std::size_t at = constants.contains(node.inputs[1]) ? 1 : 0;
  const auto shape = graph.shape_of(node.inputs[at]);
  if (!shape || shape->size() != terms[at].size()) return {};
  std::optional<std::size_t> longest;
  for (std::size_t axis = 0; axis < shape->size(); ++axis) {
    const char label = terms[at][axis];
    if (std::ranges::count(terms[at], label) != 1) return {};
    if (terms[1 - at].find(label) != std::string::npos || !is_result(label)) continue;
    if (!longest || (*shape)[axis].size > (*shape)[*longest].size) longest = axis;
  }
  if (!longest) return {};
  return {{.input = at, .output_axis = *longest}};
}

/// Whether a computed value selects which rows of input 0 a node returns.
bool picks_rows(const Graph& graph, const Node& node, const Constants& constants) {
  const auto flows = [&](std::size_t i) { return node.has_input(i) && !constants.contains(node.inputs[i]); };
  if (node.is("Gather")) return flows(1) && node.int_or("axis", 0) == 0;
  if (!node.is("Slice") || !node.has_input(3) || !(flows(1) || flows(2)) || node.has_input(4)) return false;
  const Tensor* axes = graph.constant(node.inputs[3]);
  return axes && axes->to_ints() == std::vector<std::int64_t>{0};
}

/// In a recurrent cell: the inputs of sigmoid and tanh, and the factors of gates. Sums stay sums.
ActivationInputs cell_inputs(const Node& node, std::vector<std::size_t> floats) {
  const auto part = cell_part(node);
  const bool takes = is_any(node, trait::kOfCells) || (node.is("Sub") && part->part == "change");
  if (!takes) return {};
  if (is_matrix_product(node)) std::erase_if(floats, [](std::size_t i) { return i > 1; });
  return {.inputs = std::move(floats)};
}

}  // namespace

Constants::Constants(const Graph& graph) {
  for (const auto& [name, tensor] : graph.initializers) values_.insert(name);
  for (const auto& [name, constant] : graph.quantized) values_.insert(name);
  for (const Node& node : graph.nodes) {
    const bool is_constant = !is_random(node) && std::ranges::all_of(node.inputs, [&](const auto& input) {
      return input.empty() || values_.contains(input);
    });
    if (is_constant) values_.insert(node.outputs.begin(), node.outputs.end());
  }
}

std::vector<WeightInput> weight_inputs(const Graph& graph, const Node& node, const Constants& constants) {
  const auto is_constant = [&](std::size_t i) {
    return node.has_input(i) && constants.contains(node.inputs[i]);
  };
  const auto rank = [&](std::size_t i) { return graph.rank_of(node.inputs[i]).value_or(0); };
  const OperatorTraits& traits = traits_of(node);
  if (traits.is(trait::kRecurrent) && is_constant(1) && is_constant(2)) {
    return {{.input = 1, .output_axis = 1}, {.input = 2, .output_axis = 1}};
  }
  if (traits.is(trait::kMultiplies)) {
    if (traits.products[0].terms == Terms::kEquation) return equation_weights(graph, node, constants);
    if (is_matrix_product(node) && is_constant(0) == is_constant(1)) return {};
    const std::size_t at = is_constant(1) ? 1 : 0;
    const auto product = weighted_product(node, rank(at), at);
    if (!product || !is_constant(at)) return {};
    const std::size_t stack = product->is_convolution() ? 0 : std::max<std::size_t>(rank(at), 2) - 2;
    return {{.input = at, .output_axis = product->output_axis, .stack_axes = stack}};
  }
  const bool is_table = is_constant(0) && is_float(graph, node.inputs[0]) && rank(0) == 2;
  if (is_table && picks_rows(graph, node, constants))
    return {{.input = 0, .output_axis = 0, .is_embedding = true}};
  return {};
}

ActivationInputs activation_inputs(const Graph& graph, const Node& node, const Constants& constants) {
  std::vector<std::size_t> floats = changing_floats(graph, node, constants);
  if (floats.empty()) return {};
  if (cell_part(node)) return cell_inputs(node, std::move(floats));
  const OperatorTraits& traits = traits_of(node);
  if (traits.is(trait::kMultiplies)) {
    std::erase_if(floats, [&](std::size_t i) { return i == traits.products[0].bias; });
    return {.inputs = floats};
  }
  if (traits.is(trait::kRecurrent) || is_average_pool(graph, node)) {
    if (floats[0] != 0) return {};
    return {.inputs = {0}};
  }
  if (node.is("Concat")) return {.inputs = floats, .share_scale = true};
  if (traits.is(trait::kAdds) && floats.size() > 1 && floats.size() == node.inputs.size() &&
      have_one_shape(graph, node, floats)) {
    return {.inputs = floats, .share_scale = true};
  }
  return {};
}

bool moves_elements(const Graph& graph, const Node& node) {
  if (is_any(node, trait::kMoves)) return true;
  if (node.is("Dropout")) return !node.has_input(2);
  if (node.is("Pad")) return pads_with_zero(graph, node);
  return (node.is("Resize") || node.is("Upsample")) && node.text_or("mode", "nearest") == "nearest";
}

bool takes_tokens(const Graph& graph, const Node& node, std::size_t input, const Constants& constants) {
  if (input != 0 || cell_part(node) || !is_matrix_product(node)) return false;
  if (node.int_or("transA", 0) != 0) return false;
  const std::vector<WeightInput> weights = weight_inputs(graph, node, constants);
  return weights.size() == 1 && weights[0].input == 1;
}

std::optional<std::vector<std::int64_t>> mean_axes(const Graph& graph, const Node& node) {
  const auto rank = graph.rank_of(node.inputs.at(0));
  if (!rank) return std::nullopt;
  std::vector<std::int64_t> axes = node.ints_or("axes", {});
  if (node.has_input(1)) {
    const Tensor* constant = constant_input(graph, node, 1);
    if (!constant) return std::nullopt;
    axes = constant->to_ints();
  }
  if (axes.empty() && node.int_or("noop_with_empty_axes", 0) != 0) return axes;
  if (axes.empty()) {
    axes.resize(*rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (std::int64_t& axis : axes) axis += axis < 0 ? static_cast<std::int64_t>(*rank) : 0;
  std::ranges::sort(axes);
  return axes;
}

bool is_average_pool(const Graph& graph, const Node& node) {
  if (node.is("AveragePool") || node.is("GlobalAveragePool")) return true;
  if (!node.is("ReduceMean") || graph.rank_of(node.inputs.at(0)).value_or(0) < 4) return false;
  std::vector<std::int64_t> spatial(*graph.rank_of(node.inputs[0]) - 2);
  std::iota(spatial.begin(), spatial.end(), 2);
  return mean_axes(graph, node) == spatial;
}

bool is_depthwise(const Graph& graph, const Node& node) {
  if (!is_convolution(node)) return false;
  const auto weight = graph.shape_of(node.inputs.at(1));
  if (!weight || weight->size() < 2) return false;
  const std::int64_t sizes[] = {(*weight)[0].size, (*weight)[1].size};
  const auto product = weighted_product(node, weight->size());
  return product->groups > 1 && product->groups == product->inputs(sizes);
}

bool is_called(const Node& node, const std::string& op) {
  if (op == "Linear") return is_matrix_product(node);
  if (op == "Embedding") return node.is("Gather");
  return node.op == op;
}

std::optional<BiasInput> bias_of(const Graph& graph, const Links& links, std::size_t index) {
  const Node& node = graph.nodes[index];
  const auto is_bias = [&](const std::string& value) {
    const Tensor* constant = graph.constant(value);
    return constant && constant->type() == ElementType::kFloat;
  };
  const auto product = weighted_product(node, 2);
  if (!product) return {};
  if (product->bias != kNoInput) {
    if (product->is_scaled || !node.has_input(product->bias) || !is_bias(node.inputs[product->bias]))
      return {};
    return BiasInput{.node = index, .input = product->bias};
  }
  const std::string& value = graph.nodes[last_sum_behind(graph, links, index)].outputs[0];
  const auto consumers = links.consumers(value);
  if (links.is_output(value) || consumers.size() != 1 || !graph.nodes[consumers[0]].is("Add")) return {};
  const Node& add = graph.nodes[consumers[0]];
  const std::size_t other = add.inputs[0] == value ? 1 : 0;
  if (!is_bias(add.inputs[other])) return {};
  return BiasInput{.node = consumers[0], .input = other};
}

}  // namespace crumb::graph
