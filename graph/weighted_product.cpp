#include "graph/weighted_product.h"

#include <algorithm>

namespace crumb::graph {
namespace {

/// Returns the operator's one product where a recipe quantizes it and its axes are known, else null.
const ProductRule* rule_of(const Node& node) {
  const OperatorTraits& traits = traits_of(node);
  if (!traits.is(trait::kMultiplies)) return nullptr;
  const ProductRule& rule = traits.products[0];
  return rule.terms == Terms::kEquation ? nullptr : &rule;
}

}  // namespace

std::optional<WeightedProduct> weighted_product(const Node& node, std::size_t rank, std::size_t weight) {
  const ProductRule* rule = rule_of(node);
  if (!rule) return std::nullopt;
  WeightedProduct product{.terms = rule->terms, .data = 1 - weight, .weight = weight, .bias = rule->bias};
  if (product.is_convolution()) {
    if (weight != rule->b) return std::nullopt;
    product.output_axis = rule->terms == Terms::kTransposed ? 1 : 0;
    product.input_axis = 1 - product.output_axis;
    product.groups = node.int_or("group", 1);
    return product;
  }
  const auto transposes = [&](std::size_t input) {
    return node.int_or(input == 0 ? "transA" : "transB", 0) != 0;
  };
  product.transposes_data = transposes(product.data);
  product.is_scaled = node.float_or("alpha", 1) != 1 || node.float_or("beta", 1) != 1;
  const std::size_t axes = rule->bias == kNoInput ? std::max<std::size_t>(rank, 1) : 2;
  const std::size_t last = axes - 1, before = axes < 2 ? 0 : axes - 2;
  const bool outputs_last = (weight == 1) != transposes(weight);
  product.output_axis = outputs_last ? last : before;
  product.input_axis = outputs_last ? before : last;
  return product;
}

bool is_matrix_product(const Node& node) {
  const ProductRule* rule = rule_of(node);
  return rule && rule->terms == Terms::kMatrix;
}

bool is_convolution(const Node& node) {
  const ProductRule* rule = rule_of(node);
  return rule && rule->terms != Terms::kMatrix;
}

}  // namespace crumb::graph
