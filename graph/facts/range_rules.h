// How ranges of whole numbers pass through operators: an allow-list with one rule for each form that a row of
// operator_traits.h can name. Internal to graph/facts.
//
// A rule looks at every attribute and optional input of every operator set of its operators, and gives levels
// only where it covers all of them. Operators without a form, and outputs that a row does not cover, have
// unknown ranges.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/facts/infer_datatypes.h"
#include "graph/facts/level_arithmetic.h"
#include "graph/operator_traits.h"

namespace crumb::graph {

/// One output of one node, and what is known about the node's inputs.
class RangeCall {
 public:
  RangeCall(const Graph& graph, const ConstantValues& constants,
            const std::map<std::string, ValueType>& types, const Node& node, std::size_t output)
      : graph_(graph), constants_(constants), types_(types), node_(node), output_(output) {}

  const Node& node() const { return node_; }
  std::size_t output() const { return output_; }
  std::size_t inputs() const { return node_.inputs.size(); }

  ValueType in(std::size_t i) const;  ///< nothing known if the node has no such input
  /// Returns the constant that is input i; nothing where it is not constant, or cannot be computed.
  std::optional<ConstantValue> constant(std::size_t i) const;
  std::optional<double> number(std::size_t i) const;  ///< the constant's only element
  bool has(std::size_t i) const { return node_.has_input(i); }
  bool is_constant(std::size_t i) const { return has(i) && constants_.is_constant(node_.inputs[i]); }

  ElementType element_in(std::size_t i) const;
  ElementType element_made() const;
  std::optional<Shape> shape_in(std::size_t i) const;

  /// Whether the output is float32 or float64, so that sums of levels are exact.
  bool computes_in_float() const;

  /// Returns the input's levels; for a constant, those of its values on this grid.
  std::optional<Levels> levels_on(std::size_t i, const Levels& grid) const;
  /// Returns the grid of the first of these inputs that has one known scale.
  std::optional<Levels> grid_of(std::size_t first, std::size_t last) const;

 private:
  const Graph& graph_;
  const ConstantValues& constants_;
  const std::map<std::string, ValueType>& types_;
  const Node& node_;
  std::size_t output_;
};

using RangeRule = ValueType (*)(const RangeCall&);

/// Returns the rule for a node's output, by the form of its operator (operator_traits.h); null where the
/// operator has none, or its form does not cover this output.
RangeRule find_range_rule(const Node& node, std::size_t output);

// rules_moves.cpp: operators that return elements of their inputs
ValueType moved(const RangeCall&);
ValueType max_pooled(const RangeCall&);
ValueType reduced_to_one(const RangeCall&);  ///< the largest or the smallest element
ValueType resized(const RangeCall&);
ValueType dropped_out(const RangeCall&);
ValueType padded(const RangeCall&);
ValueType lowered_to_columns(const RangeCall&);
ValueType triangle(const RangeCall&);
ValueType concatenated(const RangeCall&);
ValueType scattered(const RangeCall&);
ValueType chosen(const RangeCall&);
ValueType largest(const RangeCall&);
ValueType smallest(const RangeCall&);
ValueType constant_node(const RangeCall&);

// rules_arithmetic.cpp
ValueType added(const RangeCall&);
ValueType subtracted(const RangeCall&);
ValueType summed_up(const RangeCall&);
ValueType multiplied(const RangeCall&);
ValueType divided(const RangeCall&);
ValueType negative(const RangeCall&);
ValueType magnitude(const RangeCall&);
ValueType sign(const RangeCall&);
ValueType rectified(const RangeCall&);
ValueType leaky(const RangeCall&);
ValueType parametric(const RangeCall&);
ValueType clipped(const RangeCall&);
ValueType cast(const RangeCall&);

// rules_pools.cpp
ValueType averaged(const RangeCall&);
ValueType averaged_all(const RangeCall&);
ValueType reduced_to_mean(const RangeCall&);
ValueType reduced_to_sum(const RangeCall&);
ValueType quantized_average(const RangeCall&);

// rules_quantizers.cpp
ValueType integer_quantizer(const RangeCall&);
ValueType bipolar_quantizer(const RangeCall&);
ValueType float_quantizer(const RangeCall&);
ValueType truncated(const RangeCall&);
ValueType thresholds(const RangeCall&);
ValueType quantized_linearly(const RangeCall&);
ValueType dequantized_linearly(const RangeCall&);
ValueType quantized_product(const RangeCall&);
ValueType quantized_dynamically(const RangeCall&);

/// Returns the type that covers both, as for Concat.
DataType joined_type(const DataType& a, const DataType& b);

}  // namespace crumb::graph
