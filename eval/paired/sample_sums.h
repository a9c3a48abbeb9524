// What a model's answers amount to, sample by sample, so that a metric can be computed of any choice of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace crumb::eval {

/// A number of a sample, and which sum it belongs to.
struct Term {
  std::uint32_t sum = 0;
  double value = 0;
};

/// A few terms of each sample, in the order in which samples came. Memory: 16 bytes a term, 8 a sample.
class SampleSums {
 public:
  void add(std::span<const Term> sample);
  std::size_t samples() const { return ends_.size(); }
  std::span<const Term> of(std::size_t sample) const;
  /// The number of sums: one more than the largest that a term named.
  std::size_t width() const { return width_; }

 private:
  std::vector<Term> terms_;
  std::vector<std::size_t> ends_;
  std::size_t width_ = 0;
};

}  // namespace crumb::eval
