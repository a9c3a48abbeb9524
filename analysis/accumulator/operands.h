// What the operands of a product can be. Internal to analysis/accumulator.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/facts/infer_datatypes.h"
#include "quant/accumulator/accumulator.h"

namespace crumb::analysis {

/// Of a value that is computed, its zero point taken off, in units of its grid.
struct OperandRange {
  /// Each holds for all terms of a sum at once. More than one where zero points are computed, or several:
  /// their least and their greatest, between which no sum goes further (its worst sums are convex in the zero
  /// point).
  std::vector<IntegerRange> cases;
  double unit = 1;
  std::optional<double> scale;  ///< nothing where each token has one that is computed
  bool assumed = false;         ///< rests on what is said of the graph's inputs
  std::string failure;          ///< why there is no range; then there are no cases

  /// The least that holds all cases. Precondition: there are some.
  IntegerRange hull() const;
};

class OperandReader {
 public:
  /// `graph`: without constants that are kept as codes, shapes inferred. All outlive this.
  OperandReader(const graph::Graph& graph, const graph::ConstantValues& constants,
                const std::map<std::string, graph::ValueType>& types, const graph::Links& links);

  /// `zero`: the value that is its zero point, or "". `by_token`: a scale for each run along the last axis
  /// will do, since that is summed over. `is_integer`: it is whole numbers by its type where nothing tells
  /// more.
  OperandRange find(const std::string& value, const std::string& zero, bool by_token, bool is_integer) const;

  /// The node between a quantizer and the value whose rule made the range what it is, in words; "" where the
  /// quantizer, or the graph's input, has it already.
  std::string changed_by(const std::string& value) const;

 private:
  std::string why_unknown(const std::string& value) const;
  bool is_of_tokens(const std::string& value) const;
  std::optional<graph::Levels> levels_of(const std::string& value) const;
  std::optional<graph::Levels> zeros_of(const std::string& value) const;

  const graph::Graph& graph_;
  const graph::ConstantValues& constants_;
  const std::map<std::string, graph::ValueType>& types_;
  const graph::Links& links_;
};

}  // namespace crumb::analysis
