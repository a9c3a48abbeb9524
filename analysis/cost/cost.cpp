#include "analysis/cost/cost.h"

#include <algorithm>
#include <cmath>

#include "analysis/accumulator/weight_codes.h"
#include "analysis/products.h"
#include "analysis/rows.h"
#include "graph/facts/bind_shapes.h"
#include "graph/facts/constant_values.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/sparse_products.h"
#include "quant/accumulator/accumulator.h"

namespace crumb::analysis {
namespace {

using Types = std::map<std::string, graph::ValueType>;

constexpr double kMostLevel = 9007199254740992;  // 2^53

/// A weight's codes as rows of terms that one register adds up; nothing where those of a row have several
/// scales.
std::optional<std::vector<std::int64_t>> rows_of_one_scale(const WeightCodes& weight, const RowOrder& order) {
  std::vector<std::int64_t> rows(weight.codes.size());
  std::vector<double> scales(weight.group.empty() ? 0 : order.rows());
  bool alike = true;
  order.for_each([&](std::size_t i, std::size_t row, std::size_t term, auto) {
    rows[row * order.length() + term] = weight.codes[i];
    if (weight.group.empty()) return;
    const double scale = weight.scale[weight.group[i]];
    if (term == 0)
      scales[row] = scale;
    else
      alike = alike && scales[row] == scale;
  });
  return alike ? std::optional(std::move(rows)) : std::nullopt;
}

/// The largest, in units.
double magnitude_of(const graph::Levels& levels) {
  return std::max(std::fabs(levels.low), std::fabs(levels.high)) / levels.unit();
}

/// The largest l1 norm of a row.
double largest_norm(std::span<const std::int64_t> codes, std::size_t length) {
  double largest = 0, norm = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    norm = (i % length == 0 ? 0 : norm) + std::fabs(static_cast<double>(codes[i]));
    largest = std::max(largest, norm);
  }
  return largest;
}

/// The least type of every partial sum (FINN's rule, where inputs can be 0).
std::optional<graph::DataType> least_type(std::span<const std::int64_t> codes, std::size_t length,
                                          IntegerRange input) {
  WorstSums worst;
  for (std::size_t first = 0; first < codes.size(); first += length) {
    const auto sums = worst_sums(codes.subspan(first, length), input);
    if (!sums) return {};
    worst = {.max = std::max(worst.max, sums->max), .min = std::min(worst.min, sums->min)};
  }
  return graph::DataType::least_integer(static_cast<double>(worst.min), static_cast<double>(worst.max));
}

/// `constant`: of a weight that does not flow; nothing where its codes cannot be told.
std::optional<AccumulatorBounds> bounds_of(const Product& product, const graph::ValueType& input,
                                           const graph::ValueType& weight,
                                           const std::optional<WeightCodes>& constant) {
  const graph::Levels &x = *input.levels, &w = *weight.levels;
  const bool floats = x.minifloat > 0 || w.minifloat > 0;
  AccumulatorBounds bounds{.assumed = x.assumed || w.assumed};
  bounds.by_types =
      floats ? accumulator_bits_by_magnitudes(product.length, magnitude_of(x), magnitude_of(w))
             : accumulator_bits_by_types(product.length, x.bits, x.is_signed, w.bits + (w.is_signed ? 0 : 1));
  if (!constant) return w.one_scale ? std::optional(bounds) : std::nullopt;
  const RowOrder order(product.weight_shape, product.summed);
  const auto codes = rows_of_one_scale(*constant, order);
  if (!codes) return {};
  const double low = x.low / x.unit(), high = x.high / x.unit();
  if (codes->empty() || !(low >= -kMostLevel && high <= kMostLevel)) return bounds;
  const double norm = largest_norm(*codes, order.length());
  bounds.by_weights = floats ? accumulator_bits_by_norm(norm * magnitude_of(x), 1, true)
                             : accumulator_bits_by_norm(norm, x.bits, x.is_signed);
  bounds.exact =
      least_type(*codes, order.length(), {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)});
  return bounds;
}

/// One register for what both need.
AccumulatorBounds wider(const AccumulatorBounds& a, const AccumulatorBounds& b) {
  AccumulatorBounds both{.by_types = std::max(a.by_types, b.by_types), .assumed = a.assumed || b.assumed};
  if (a.by_weights && b.by_weights) both.by_weights = std::max(*a.by_weights, *b.by_weights);
  if (a.exact && b.exact)
    both.exact = graph::DataType::least_integer(std::min(*a.exact->min(), *b.exact->min()),
                                                std::max(*a.exact->max(), *b.exact->max()));
  return both;
}

class Counter {
 public:
  explicit Counter(const graph::Graph& graph)
      : graph_(graph),
        links_(graph),
        derived_(resolve_shapes(without_claims(graph))),
        constants_(graph),
        usual_(infer_data_types(graph, constants_, graph::TypeRules::kQonnx)),
        exact_(infer_data_types(derived_, graph::ConstantValues(derived_), graph::TypeRules::kExact)),
        weights_(graph, graph, constants_, exact_) {}

  GraphCost run() {
    GraphCost cost;
    for (const graph::Node& node : graph_.nodes) {
      const bool constant = std::ranges::all_of(node.outputs, [&](const std::string& value) {
        return value.empty() || constants_.is_constant(value);
      });
      if (constant) continue;
      const bool first = node.has_input(0) && constants_.is_constant(node.inputs[0]);
      const auto products = products_of(graph_, node, first);
      if (!products) cost.not_counted.insert(node.op);
      if (!products || products->empty() || products->front().macs == 0) continue;
      cost.nodes.push_back(cost_of(node, *products));
      cost.nodes.back().accumulator = accumulator_of(node, first);
      cost.dense += cost.nodes.back().dense;
      cost.sparse += cost.nodes.back().sparse;
    }
    return cost;
  }

 private:
  static graph::ValueType type_in(const Types& types, const std::string& value) {
    const auto found = types.find(value);
    return found == types.end() ? graph::ValueType() : found->second;
  }

  NodeCost cost_of(const graph::Node& node, const std::vector<Product>& products) const {
    NodeCost cost{.name = node.name, .op = node.op};
    double zeros = 0;
    for (const Product& product : products) zeros += add(product, cost);
    cost.density = cost.weights > 0 ? 1 - zeros / cost.weights : 1;
    const auto made = std::ranges::find_if_not(node.outputs, &std::string::empty);
    if (made == node.outputs.end()) throw Error(text_of(node) + ": it has no output");
    cost.made = *made;
    cost.output = type_in(exact_, *made).type;
    double results = 1;
    for (const std::int64_t size : shape_of(graph_, node, *made)) results *= static_cast<double>(size);
    cost.dense.activation_bits = cost.sparse.activation_bits = results * cost.output.bits();
    cost.input = type_in(exact_, products[0].input).type;
    cost.weight = type_in(exact_, products[0].weight).type;
    cost.length = products[0].length;
    return cost;
  }

  /// How many of its weights are zero.
  double add(const Product& product, NodeCost& cost) const {
    const graph::ValueType input = type_in(exact_, product.input), weight = type_in(exact_, product.weight);
    const bool is_weight = constants_.is_constant(product.weight);
    const auto constant = is_weight ? constants_.find(product.weight) : std::nullopt;
    double elements = 0, zeros = 0, macs = product.macs;
    if (const auto few = graph::sparse_matrix(graph_, links_, product.weight)) {
      // Kept as numbers and gaps of 16 bits each, and nobody multiplies by what lies between.
      elements = static_cast<double>(few->numbers.size());
      macs *= elements / std::max(static_cast<double>(few->rows) * static_cast<double>(few->columns), 1.0);
    } else if (is_weight) {
      elements = 1;
      for (const std::int64_t size : product.weight_shape) elements *= static_cast<double>(size);
    }
    if (constant) zeros = static_cast<double>(std::ranges::count(constant->values, 0.0));
    cost.weights += elements;

    const std::string& other = product.weight.empty() ? product.input : product.weight;
    const double usual_bits =
        double(type_in(usual_, product.input).type.bits()) * type_in(usual_, other).type.bits();
    const double a = input.type.bits(), w = (product.weight.empty() ? input : weight).type.bits();
    const double extra = a + w + (product.length > 0 ? std::log2(product.length) : 0);
    // Each weight takes part in as many products as every other.
    const double left = elements > 0 ? macs * (elements - zeros) / elements : macs;
    const Amounts dense{.macs = macs,
                        .bops_qonnx = macs * usual_bits,
                        .bops_qap = macs * (a * w + extra),
                        .weight_bits = elements * weight.type.bits()};
    const Amounts sparse{.macs = left,
                         .bops_qonnx = left * usual_bits,
                         .bops_qap = left * a * w + macs * extra,
                         .weight_bits = (elements - zeros) * weight.type.bits()};
    cost.dense += dense;
    cost.sparse += sparse;
    return zeros;
  }

  /// What all of the node's products fit in, where each has bounds; by shapes that follow from the graph's
  /// inputs, whatever the file states.
  std::optional<AccumulatorBounds> accumulator_of(const graph::Node& node, bool first) const {
    std::optional<std::vector<Product>> products;
    try {
      products = products_of(derived_, node, first);
    } catch (const Error&) {
      return {};  // a shape that the file alone knows
    }
    std::optional<AccumulatorBounds> all;
    for (const Product& product : products.value_or(std::vector<Product>())) {
      const auto bounds = bounds_of(product);
      if (!bounds) return {};
      all = all ? wider(*all, *bounds) : *bounds;
    }
    return all;
  }

  std::optional<AccumulatorBounds> bounds_of(const Product& product) const {
    const graph::ValueType input = type_in(exact_, product.input), weight = type_in(exact_, product.weight);
    if (!input.levels || !weight.levels || product.summed.empty() || !input.levels->one_scale) return {};
    std::optional<WeightCodes> constant;
    if (constants_.is_constant(product.weight)) {
      if (auto codes = weights_.find(product.weight); codes.ok()) constant = codes.take();
    }
    return analysis::bounds_of(product, input, weight, constant);
  }

  const graph::Graph& graph_;
  const graph::Links links_;
  const graph::Graph derived_;  ///< without what the file says of types and shapes inside
  graph::ConstantValues constants_;
  Types usual_, exact_;
  WeightReader weights_;
};

}  // namespace

Amounts& Amounts::operator+=(const Amounts& other) {
  macs += other.macs;
  bops_qonnx += other.bops_qonnx;
  bops_qap += other.bops_qap;
  weight_bits += other.weight_bits;
  activation_bits += other.activation_bits;
  return *this;
}

GraphCost cost_of(const graph::Graph& graph) { return Counter(graph).run(); }

}  // namespace crumb::analysis
