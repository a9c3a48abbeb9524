#include "analysis/products.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/files/text.h"
#include "graph/edit.h"
#include "graph/operator_traits.h"

namespace crumb::analysis {
namespace {

using Sizes = std::vector<std::int64_t>;
using Products = std::optional<std::vector<Product>>;

double count(const Sizes& sizes, std::size_t first = 0, std::size_t leave = 0) {
  double product = 1;
  for (std::size_t i = first; i + leave < sizes.size(); ++i) product *= static_cast<double>(sizes[i]);
  return product;
}

[[noreturn]] void refuse(const graph::Node& node, const std::string& why) {
  throw Error(text_of(node) + ": " + why);
}

void need_rank(const graph::Node& node, const Sizes& shape, std::size_t least) {
  if (shape.size() < least) {
    refuse(node, "an operand has the shape " + graph::text_of(shape) + ", expected " + std::to_string(least) +
                     " axes or more");
  }
}

WeightAxes convolution_axes(const graph::Node& node, const Sizes& weight) {
  need_rank(node, weight, 3);
  WeightAxes axes{.shape = weight, .summed = std::vector<bool>(weight.size(), true)};
  axes.summed[0] = false;
  return axes;
}

/// [groups, inputs of one, outputs of one, kernel...].
WeightAxes transposed_convolution_axes(const graph::Node& node, const Sizes& weight) {
  need_rank(node, weight, 3);
  const std::int64_t groups = std::max<std::int64_t>(1, node.int_or("group", 1));
  if (weight[0] % groups != 0) refuse(node, "the weight's axis 0 cannot be split into its groups");
  WeightAxes axes{.shape = {groups, weight[0] / groups}, .summed = {}};
  axes.shape.insert(axes.shape.end(), weight.begin() + 1, weight.end());
  axes.summed.assign(axes.shape.size(), true);
  axes.summed[0] = axes.summed[2] = false;
  return axes;
}

/// The axis of an operand of a matrix product that is summed over.
std::size_t summed_axis(std::size_t rank, bool is_second, bool is_transposed) {
  return rank == 1 ? 0 : rank - (is_second == is_transposed ? 1 : 2);
}

WeightAxes matrix_axes(const Sizes& weight, bool is_second, bool is_transposed) {
  WeightAxes axes{.shape = weight, .summed = std::vector<bool>(weight.size(), false)};
  axes.summed[summed_axis(weight.size(), is_second, is_transposed)] = true;
  return axes;
}

Product convolution(const graph::Graph& graph, const graph::Node& node, std::size_t weight_at) {
  const Sizes weight = shape_of(graph, node, node.inputs[weight_at]);
  const Sizes out = shape_of(graph, node, node.outputs[0]);
  WeightAxes axes = convolution_axes(node, weight);
  return {.macs = count(out) * count(weight, 1),
          .length = count(weight, 1),
          .input = node.inputs[0],
          .weight = node.inputs[weight_at],
          .weight_shape = std::move(axes.shape),
          .summed = std::move(axes.summed)};
}

/// Every number of the input meets every weight of its group.
Product transposed_convolution(const graph::Graph& graph, const graph::Node& node) {
  const Sizes in = shape_of(graph, node, node.inputs[0]), weight = shape_of(graph, node, node.inputs[1]);
  WeightAxes axes = transposed_convolution_axes(node, weight);
  return {.macs = count(in) * count(weight, 1),
          .length = count(weight) / static_cast<double>(std::max<std::int64_t>(weight[1], 1) * axes.shape[0]),
          .input = node.inputs[0],
          .weight = node.inputs[1],
          .weight_shape = std::move(axes.shape),
          .summed = std::move(axes.summed)};
}

struct Factor {
  std::size_t input = 0;
  bool is_transposed = false;  ///< Gemm's transA, transB
};

Product matrix_product(const graph::Graph& graph, const graph::Node& node, Factor a, Factor b,
                       bool first_is_constant) {
  const Sizes left = shape_of(graph, node, node.inputs[a.input]),
              right = shape_of(graph, node, node.inputs[b.input]);
  const Sizes out = shape_of(graph, node, node.outputs[0]);
  need_rank(node, left, 1);
  need_rank(node, right, 1);
  const auto length = static_cast<double>(left[summed_axis(left.size(), false, a.is_transposed)]);
  WeightAxes axes = first_is_constant ? matrix_axes(left, false, a.is_transposed)
                                      : matrix_axes(right, true, b.is_transposed);
  return {.macs = length * count(out),
          .length = length,
          .input = node.inputs[first_is_constant ? b.input : a.input],
          .weight = node.inputs[first_is_constant ? a.input : b.input],
          .weight_shape = std::move(axes.shape),
          .summed = std::move(axes.summed)};
}

std::vector<Product> recurrent(const graph::Graph& graph, const graph::Node& node) {
  const Sizes x = shape_of(graph, node, node.inputs[0]);
  const double samples = count(x, 0, 1);  // steps and batch
  std::vector<Product> products;
  for (const std::size_t i : {1u, 2u}) {
    const Sizes weight = shape_of(graph, node, node.inputs[i]);
    need_rank(node, weight, 3);
    products.push_back({.macs = samples * count(weight),
                        .length = static_cast<double>(weight[2]),
                        .input = i == 1 ? node.inputs[0] : "",
                        .weight = node.inputs[i],
                        .weight_shape = weight,
                        .summed = {false, false, true}});
  }
  return products;
}

/// Two operands, labels without an ellipsis: every combination of labels is one multiplication.
Products einsum(const graph::Graph& graph, const graph::Node& node) {
  std::string equation = node.text_or("equation", "");
  std::erase(equation, ' ');
  const std::string terms = equation.substr(0, equation.find("->"));
  const std::size_t comma = terms.find(',');
  if (node.inputs.size() != 2 || comma == std::string::npos || terms.find('.') != std::string::npos)
    return {};
  const std::string labels = terms.substr(0, comma) + terms.substr(comma + 1);
  Sizes sizes = shape_of(graph, node, node.inputs[0]);
  const Sizes right = shape_of(graph, node, node.inputs[1]);
  sizes.insert(sizes.end(), right.begin(), right.end());
  if (labels.size() != sizes.size()) return {};
  std::map<char, std::int64_t> extent;
  for (std::size_t i = 0; i < labels.size(); ++i) extent[labels[i]] = std::max(extent[labels[i]], sizes[i]);
  double macs = 1;
  for (const auto& [label, size] : extent) macs *= static_cast<double>(size);
  const double results = count(shape_of(graph, node, node.outputs[0]));
  return std::vector{Product{.macs = macs,
                             .length = results > 0 ? macs / results : 0,
                             .input = node.inputs[0],
                             .weight = node.inputs[1],
                             .weight_shape = right}};
}

Product upsampling(const graph::Graph& graph, const graph::Node& node) {
  if (node.text_or("mode", "nearest") == "nearest") return {};
  const Sizes in = shape_of(graph, node, node.inputs[0]), out = shape_of(graph, node, node.outputs[0]);
  double scaled = 0;
  for (std::size_t i = 0; i < std::min(in.size(), out.size()); ++i) scaled += out[i] > in[i] ? 1 : 0;
  return {.macs = 2 * scaled * count(out), .length = 2 * scaled, .input = node.inputs[0]};
}

std::vector<Product> attention(const graph::Graph& graph, const graph::Node& node) {
  const Sizes q = shape_of(graph, node, node.inputs[0]), k = shape_of(graph, node, node.inputs[1]);
  const Sizes out = shape_of(graph, node, node.outputs[0]);
  need_rank(node, k, 3);
  double keys = static_cast<double>(k[k.size() - 2]);
  if (node.has_input(4)) keys += static_cast<double>(shape_of(graph, node, node.inputs[4]).at(2));
  const double width =
      q.size() == 4 ? static_cast<double>(q[3])
                    : static_cast<double>(q.back()) /
                          static_cast<double>(std::max<std::int64_t>(1, node.int_or("q_num_heads", 1)));
  return {{.macs = count(q) * keys, .length = width, .input = node.inputs[0], .weight = node.inputs[1]},
          {.macs = count(out) * keys, .length = keys, .input = "", .weight = node.inputs[2]}};
}

/// What multiplies and is not known here.
bool works(const graph::Node& node) {
  if (node.domain == graph::kOnnxDomain) {
    return is_any(node, graph::trait::kUncounted) ||
           (node.op == "Resize" && node.text_or("mode", "nearest") != "nearest");
  }
  return node.domain != graph::kQonnxDomain && node.domain != graph::kChannelsLastDomain;
}

}  // namespace

Sizes shape_of(const graph::Graph& graph, const graph::Node& node, const std::string& value) {
  if (const graph::Tensor* constant = graph.constant(value)) return constant->shape();
  const graph::Value* known = graph.find(value);
  if (!known || !known->is_static()) {
    refuse(node, "the shape of " + quote_text(value) + " is not known" +
                     (known && known->shape ? ", only " + text_of(*known->shape) : "") +
                     "; give the shapes of the inputs (--shape NAME=1x128)");
  }
  Sizes sizes;
  for (const graph::Dim& dim : *known->shape) sizes.push_back(dim.size);
  return sizes;
}

std::optional<WeightAxes> weight_axes(const graph::Node& node, std::span<const std::int64_t> weight,
                                      std::size_t weight_at) {
  const Sizes shape(weight.begin(), weight.end());
  const bool is_second = weight_at == 1;
  if (node.is("MatMul") || node.is("Gemm")) {
    need_rank(node, shape, node.op == "Gemm" ? 2 : 1);
    return matrix_axes(shape, is_second,
                       node.op == "Gemm" && node.int_or(is_second ? "transB" : "transA", 0) != 0);
  }
  if (!is_second) return {};
  if (node.is("Conv") || node.is("Conv", graph::kChannelsLastDomain)) return convolution_axes(node, shape);
  if (node.is("ConvTranspose")) return transposed_convolution_axes(node, shape);
  return {};
}

Products products_of(const graph::Graph& graph, const graph::Node& node, bool first_is_constant) {
  const auto needs = [&](std::size_t inputs) {
    for (std::size_t i = 0; i < inputs; ++i) {
      if (!node.has_input(i)) refuse(node, "input " + std::to_string(i) + " is missing");
    }
    const bool counts_results = !is_any(node, graph::trait::kRecurrent);  // whose first output is optional
    if (counts_results && !node.has_output(0)) refuse(node, "it has no output");
  };
  if (node.is("Upsample")) return needs(1), std::vector{upsampling(graph, node)};
  const std::span<const graph::ProductRule> rules = graph::traits_of(node).products;
  if (works(node)) return {};
  if (rules.empty()) return std::vector<Product>{};
  const graph::ProductRule& rule = rules[0];
  const std::size_t least = rule.requantizes ? 8 : rules.size() > 1 ? 3 : 2;
  switch (rule.terms) {
    case graph::Terms::kMatrix:
      if (!rule.reason.empty()) return std::vector<Product>{};
      needs(least);
      return std::vector{matrix_product(graph, node, {rule.a, node.int_or("transA", 0) != 0},
                                        {rule.b, node.int_or("transB", 0) != 0}, first_is_constant)};
    case graph::Terms::kConvolution: return needs(least), std::vector{convolution(graph, node, rule.b)};
    case graph::Terms::kTransposed: return needs(least), std::vector{transposed_convolution(graph, node)};
    case graph::Terms::kGates: return needs(least), recurrent(graph, node);
    case graph::Terms::kEquation: return needs(least), einsum(graph, node);
    case graph::Terms::kHeads: return needs(least), attention(graph, node);
    case graph::Terms::kSquares: break;  // no weights, and no product that a multiplier would be built for
  }
  return std::vector<Product>{};
}

}  // namespace crumb::analysis
