// Counts of classes: what labels say against what a model gave.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace crumb::eval {

class ConfusionCounts {
 public:
  /// With more classes only the counts of each class are kept: a matrix of 20,000 classes takes 3 GB.
  static constexpr std::size_t kMostClasses = 1024;

  /// There are at least so many classes.
  void widen(std::size_t classes) {
    if (classes <= wanted_.size()) return;
    for (auto* counts : {&wanted_, &found_, &both_}) counts->resize(classes);
    if (classes > kMostClasses) {
      matrix_.clear();
      return;
    }
    matrix_.resize(classes);
    for (auto& row : matrix_) row.resize(classes);
  }
  /// Precondition: both are less than classes().
  void add(std::size_t wanted, std::size_t found) {
    ++wanted_[wanted];
    ++found_[found];
    both_[wanted] += wanted == found;
    if (!matrix_.empty()) ++matrix_[wanted][found];
  }

  std::size_t classes() const { return wanted_.size(); }
  std::uint64_t wanted(std::size_t id) const { return wanted_[id]; }  ///< labels of this class
  std::uint64_t found(std::size_t id) const { return found_[id]; }    ///< what the model gave
  std::uint64_t both(std::size_t id) const { return both_[id]; }
  /// [labels, found]; empty where there are more than kMostClasses.
  const std::vector<std::vector<std::uint64_t>>& matrix() const { return matrix_; }

 private:
  std::vector<std::uint64_t> wanted_, found_, both_;
  std::vector<std::vector<std::uint64_t>> matrix_;
};

}  // namespace crumb::eval
