// A constant part by part: what a quantizer makes of a large initializer takes tens of bytes for each element while it is
// computed (constant_values.h), and comparing does not need it all at once.
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
  /// `value`: a constant of the graph, which stays as it is, as `constants` does. What a quantizer of QONNX makes of an
  /// initializer, and an initializer itself, are cut along axis 0 where they are large; of others there is one part.
  ConstantParts(const Graph& graph, const ConstantValues& constants, const Links& links,
                const std::string& value);

  std::size_t count() const { return count_; }
  bool is_cut() const { return rows_ > 0; }
  /// Where part i begins and ends along axis 0. Precondition: is_cut().
  std::pair<std::size_t, std::size_t> rows(std::size_t i) const;

  /// As ConstantValues::find would give it of rows of the value. The shape of a part has as many axes as the value.
  std::optional<ConstantValue> part(std::size_t i) const;

  /// What `node`, which differs from the value's quantizer in attributes alone, makes of other data in the place of a part's.
  /// Precondition: is_cut().
  std::optional<ConstantValue> made_by(const Node& node, std::size_t i, std::vector<double> data) const;

  /// Elements of the data that part i is made of. Precondition: is_cut().
  std::vector<float> data_of(std::size_t i) const;

 private:
  std::shared_ptr<const ConstantValue> parameter(std::size_t input, std::size_t i) const;

  const ConstantValues& constants_;
  std::string value_;
  const Node* node_ = nullptr;      ///< the quantizer; null where the value is an initializer
  std::optional<PartReader> data_;  ///< of the initializer, where it is cut
  std::int64_t row_ = 0;            ///< elements of a row
  std::vector<std::int64_t> shape_;
  std::vector<std::shared_ptr<const ConstantValue>> parameters_;  ///< whole; of input 0 null
  std::size_t rows_ = 0, count_ = 1;                              ///< of a part; parts
};

/// Rows [begin, end) of a value that broadcasts to `shape`, whose axis 0 is cut so; all of one that is the same for all rows.
ConstantValue rows_of(const ConstantValue& whole, std::span<const std::int64_t> shape, std::size_t begin,
                      std::size_t end);

/// All values of a constant, in memory of little more than theirs; nothing where ConstantValues does not know them.
std::optional<std::vector<float>> floats_of(const Graph& graph, const ConstantValues& constants,
                                            const Links& links, const std::string& value);

}  // namespace crumb::graph
