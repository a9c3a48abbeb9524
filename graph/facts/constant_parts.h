// Reads a constant in parts. The output of a quantizer on a large initializer takes tens of bytes for each
// element while it is computed (constant_values.h), and comparing does not need all of it at once.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/facts/constant_values.h"

namespace crumb::graph {

class ConstantParts {
 public:
  /// `value` is a constant of the graph; graph and `constants` must not change. Large initializers, and QONNX
  /// quantizers' outputs on them, are split along axis 0; every other constant has one part.
  ConstantParts(const Graph& graph, const ConstantValues& constants, const Links& links,
                const std::string& value);

  std::size_t count() const { return count_; }
  bool is_cut() const { return rows_ > 0; }
  /// Returns where part i begins and ends on axis 0. Precondition: is_cut().
  std::pair<std::size_t, std::size_t> rows(std::size_t i) const;

  /// Returns part i as ConstantValues::find() would, with the value's number of axes.
  std::optional<ConstantValue> part(std::size_t i) const;

  /// Returns what `node`, which differs from the value's quantizer in attributes alone, computes from other
  /// data for part i. Precondition: is_cut().
  std::optional<ConstantValue> made_by(const Node& node, std::size_t i, std::vector<double> data) const;

  /// Returns the data from which part i is quantized. Precondition: is_cut().
  std::vector<float> data_of(std::size_t i) const;

 private:
  std::shared_ptr<const ConstantValue> parameter(std::size_t input, std::size_t i) const;

  const ConstantValues& constants_;
  std::string value_;
  const Node* node_ = nullptr;      ///< the quantizer; null where the value is an initializer
  std::optional<PartReader> data_;  ///< reads the initializer, if the value is split
  std::int64_t row_ = 0;            ///< elements of a row
  std::vector<std::int64_t> shape_;
  std::vector<std::shared_ptr<const ConstantValue>> parameters_;  ///< whole parameters; null for input 0
  std::size_t rows_ = 0, count_ = 1;                              ///< rows of a part; number of parts
};

/// Returns rows [begin, end) of a value that broadcasts to `shape`, whose axis 0 is split so; the whole value
/// if it is the same for all rows.
ConstantValue rows_of(const ConstantValue& whole, std::span<const std::int64_t> shape, std::size_t begin,
                      std::size_t end);

/// Returns all values of a constant, in little more memory than theirs; nothing where ConstantValues does not
/// know them.
std::optional<std::vector<float>> floats_of(const Graph& graph, const ConstantValues& constants,
                                            const Links& links, const std::string& value);

}  // namespace crumb::graph
