// A weight's elements as rows of terms that are added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace crumb::analysis {

class RowOrder {
 public:
  /// `shape` with the axes marked that are summed over. Rows and terms are numbered row-major.
  RowOrder(std::vector<std::int64_t> shape, const std::vector<bool>& summed);

  std::size_t rows() const { return rows_; }      ///< 0 where there are no elements
  std::size_t length() const { return length_; }  ///< terms of each

  /// Called for each element in order, with its indices.
  using Visit = std::function<void(std::size_t element, std::size_t row, std::size_t term,
                                   std::span<const std::int64_t> place)>;
  void for_each(const Visit& visit) const;

 private:
  std::vector<std::int64_t> shape_;
  std::vector<std::size_t> row_steps_, term_steps_;
  std::size_t rows_ = 1, length_ = 1;
};

}  // namespace crumb::analysis
