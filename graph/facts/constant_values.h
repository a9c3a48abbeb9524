// The values of a graph's constants, those that quantizers and simple arithmetic make of initializers included,
// without an engine: what weights really are.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

struct ConstantValue {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  ///< float32 numbers, unless `wide`; integers beyond 2^53 are rounded
  bool wide = false;   ///< float64, or integers of 32 and 64 bits: NumPy computes in float64 with them
  bool whole = false;  ///< an integer type: division rounds toward zero

  /// Where a quantizer made it: values = levels * scale to float32 rounding, with levels = integer - zero point; else
  /// empty. The scale broadcasts to the shape.
  std::vector<double> levels;
  std::vector<std::int64_t> scale_shape;
  std::vector<double> scale;

  /// Whether every value is this number; true of no values.
  bool all_are(double number) const;

  /// Whether the scale is the same along this axis; true where no quantizer made it.
  bool one_scale_along(std::size_t axis) const;
};

class ConstantValues {
 public:
  /// The graph is sorted, its shapes inferred, and stays as it is.
  explicit ConstantValues(const Graph& graph);

  /// Whether nothing but constants and known shapes decides over the value, whether or not find() can compute it.
  bool is_constant(const std::string& value) const { return constants_.contains(value); }

  /// Computed afresh at every call, in memory of a few times its size. Nothing for values that are not constant, and
  /// where an operator on the way is not known here. Throws Error, which names the node, where a quantizer's
  /// parameters do not fit.
  std::optional<ConstantValue> find(const std::string& value) const;

  /// The one number of a constant; nothing where it is none or has more.
  std::optional<double> number(const std::string& value) const;

 private:
  using Memo = std::map<std::string, std::shared_ptr<const ConstantValue>>;
  std::shared_ptr<const ConstantValue> compute(const std::string& value, int depth, Memo& memo) const;

  const Graph& graph_;
  Links links_;
  std::set<std::string> constants_;
};

}  // namespace crumb::graph
