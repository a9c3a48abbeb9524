// The integers behind a weight. Internal to analysis.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/facts/infer_datatypes.h"

namespace crumb::analysis {

/// Why float weights have no codes.
inline constexpr const char* kNoWeightQuantizer = "no quantizer makes its weights";

/// value = code * unit * scale[group]. The unit is 1 for integers minus their zero point, half a step for
/// grids between the integers (binary counts as integers -1 and 1), the smallest subnormal for minifloats.
struct WeightCodes {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> codes;   ///< row-major
  std::vector<std::uint32_t> group;  ///< the index of each code's scale; empty: the first one for all
  std::vector<double> scale;
  double unit = 1;
};

/// Finds the codes of a graph's constants.
class WeightReader {
 public:
  /// `lifted`: the graph with packed constants. `lowered`: the same graph without them, shapes inferred. All
  /// outlive this.
  WeightReader(const graph::Graph& lifted, const graph::Graph& lowered,
               const graph::ConstantValues& constants, const std::map<std::string, graph::ValueType>& types);

  /// The codes of a constant: a packed one, a quantizer's output, whole numbers by type, or one of these
  /// times positive constants, reshaped or transposed. A Failure says why it has none.
  Result<WeightCodes> find(const std::string& value) const;

 private:
  Result<WeightCodes> find(const std::string& value, int depth) const;
  Result<WeightCodes> transposed(const graph::Node& node, int depth) const;
  Result<WeightCodes> multiplied(const graph::Node& node, int depth) const;

  const graph::Graph &lifted_, &lowered_;
  const graph::ConstantValues& constants_;
  const std::map<std::string, graph::ValueType>& types_;
  graph::Links links_;
};

}  // namespace crumb::analysis
