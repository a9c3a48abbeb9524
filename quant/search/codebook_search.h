// Learns a codebook by one-dimensional k-means (Lloyd's algorithm) over scaled values, as palettization does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crumb {

/// Learns the 2^bits ascending centres of `count` finite values that come in pieces, in order. When they hold
/// at most 2^bits distinct numbers these are the centres (the last one repeated), so that nothing is lost.
/// Deterministic, however the values are cut: Lloyd's algorithm runs from quantiles and from an even grid,
/// and the result with the smaller squared error is kept. Beyond 2^20 values they are gathered in 2^18 equal
/// bins.
///
///   CodebookSearch search(values.size(), 4);
///   for (int walk = 0; walk < search.walks(); ++walk) search.add(walk, values);
///   codebook = search.learn();
class CodebookSearch {
 public:
  /// The most bytes that a search holds in memory.
  static constexpr uint64_t kMostBytes = uint64_t{48} << 20;

  CodebookSearch(uint64_t count, int bits);

  /// How often all the values must be given: once, or twice, for their range and then for the bins.
  int walks() const { return sorts() ? 1 : 2; }
  void add(int walk, std::span<const float> values);
  std::vector<float> learn();

 private:
  bool sorts() const;

  uint64_t count_;
  int bits_;
  std::vector<float> values_;  ///< all of them, where they are few
  float low_ = 0, high_ = 0;   ///< the range, where they are many
  bool any_ = false;
  std::vector<double> counts_, sums_;
};

/// The same for values in memory.
std::vector<float> learn_codebook(std::span<const float> values, int bits);
/// The same, each value counting as much as its weight, and also from `start`, a codebook that is known;
/// empty: none. Precondition: weights are finite, as many as values, not below 0, and at least one is above
/// 0.
std::vector<float> learn_codebook(std::span<const float> values, std::span<const double> weights, int bits,
                                  std::span<const float> start = {});

}  // namespace crumb
