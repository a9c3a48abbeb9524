// The values of a graph's constants, computed without an engine: initializers, and what quantizers and simple
// arithmetic give for them, as real weights are.
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
  std::vector<double> values;  ///< float32 numbers unless `wide`; integers beyond 2^53 are rounded
  bool wide = false;           ///< float64, or 32- or 64-bit integers, with which NumPy computes in float64
  bool whole = false;          ///< an integer type: division rounds toward zero

  /// If a quantizer computed the value: values = levels * scale to float32 rounding, with levels = integer -
  /// zero point; else empty. The scale broadcasts to the shape.
  std::vector<double> levels;
  std::vector<std::int64_t> scale_shape;
  std::vector<double> scale;

  /// Whether every value is this number; true if there are no values.
  bool all_are(double number) const;

  /// Whether the scale is the same along this axis; true if no quantizer computed the value.
  bool one_scale_along(std::size_t axis) const;
};

class ConstantValues {
 public:
  /// Preconditions: the graph is sorted, has inferred shapes, and does not change.
  explicit ConstantValues(const Graph& graph);

  /// Whether the value depends only on constants and known shapes, also where find() cannot compute it.
  bool is_constant(const std::string& value) const { return constants_.contains(value); }

  /// Computes the value anew at every call, in a few times its memory. Nothing where it is not constant or
  /// depends on an operator that is not implemented here. Throws Error, which names the node, where a
  /// quantizer's parameters do not fit.
  std::optional<ConstantValue> find(const std::string& value) const;

  /// Returns the only element of a constant; nothing where the value is no constant or has several elements.
  std::optional<double> number(const std::string& value) const;

 private:
  using Memo = std::map<std::string, std::shared_ptr<const ConstantValue>>;
  std::shared_ptr<const ConstantValue> compute(const std::string& value, int depth, Memo& memo) const;

  const Graph& graph_;
  Links links_;
  std::set<std::string> constants_;
};

}  // namespace crumb::graph
