#include "quant/search/codebook_search.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/files/interrupt.h"

namespace crumb {
namespace {

constexpr size_t kMostSorted = size_t{1} << 20;
constexpr size_t kBins = size_t{1} << 18;
constexpr int kLloydSteps = 200;

/// Ascending points with multiplicities, and the prefix sums that make a Lloyd step a few binary searches.
struct Points {
  std::vector<double> value;
  std::vector<double> count;   ///< prefix: count[i] values in points before i
  std::vector<double> sum;     ///< prefix sums of the values
  std::vector<double> square;  ///< prefix sums of their squares

  void add(double mean, double weight) {
    if (count.empty()) count = sum = square = {0.0};
    value.push_back(mean);
    count.push_back(count.back() + weight);
    sum.push_back(sum.back() + weight * mean);
    square.push_back(square.back() + weight * mean * mean);
  }
};

double bin_width(float low, float high) {
  return std::max((static_cast<double>(high) - static_cast<double>(low)) / kBins, 1e-300);
}

/// Sorts the values and returns the distinct ones.
Points points_of(std::span<float> values) {
  Points points;
  std::ranges::sort(values);
  for (size_t i = 0; i < values.size();) {
    size_t end = i;
    while (end < values.size() && values[end] == values[i]) ++end;
    points.add(static_cast<double>(values[i]), static_cast<double>(end - i));
    i = end;
  }
  return points;
}

/// Returns the means of the bins that are not empty.
Points points_of(const std::vector<double>& counts, const std::vector<double>& sums) {
  Points points;
  for (size_t bin = 0; bin < kBins; ++bin) {
    if (counts[bin] > 0) points.add(sums[bin] / counts[bin], counts[bin]);
  }
  return points;
}

/// Returns the first point of each centre's cell, and one past the last.
std::vector<size_t> cells(const Points& points, const std::vector<double>& centres) {
  std::vector<size_t> edges{0};
  for (size_t k = 0; k + 1 < centres.size(); ++k) {
    const double middle = (centres[k] + centres[k + 1]) / 2;
    edges.push_back(
        static_cast<size_t>(std::ranges::upper_bound(points.value, middle) - points.value.begin()));
  }
  edges.push_back(points.value.size());
  return edges;
}

/// Moves each centre to the mean of its cell until the cells stay; returns the squared error.
double lloyd(const Points& points, std::vector<double>& centres) {
  std::vector<size_t> edges = cells(points, centres);
  for (int step = 0; step < kLloydSteps; ++step) {
    check_interrupt();
    for (size_t k = 0; k < centres.size(); ++k) {
      const double weight = points.count[edges[k + 1]] - points.count[edges[k]];
      if (weight > 0) centres[k] = (points.sum[edges[k + 1]] - points.sum[edges[k]]) / weight;
    }
    std::ranges::sort(centres);
    std::vector<size_t> moved = cells(points, centres);
    if (moved == edges) break;
    edges = std::move(moved);
  }
  double error = 0;
  for (size_t k = 0; k < centres.size(); ++k) {
    const size_t a = edges[k], b = edges[k + 1];
    error += points.square[b] - points.square[a] - 2 * centres[k] * (points.sum[b] - points.sum[a]) +
             centres[k] * centres[k] * (points.count[b] - points.count[a]);
  }
  return error;
}

/// Returns the centres of points. Precondition: there is at least one point.
std::vector<float> centres_of(const Points& points, int bits, std::span<const float> start = {}) {
  const size_t size = size_t{1} << bits;
  std::vector<double> centres;
  if (points.value.size() <= size) {
    centres = points.value;
    centres.resize(size, centres.back());
  } else {
    const double total = points.count.back();
    const double low = points.value.front(), high = points.value.back();
    std::vector<double> even;
    for (size_t k = 0; k < size; ++k) {
      const double share = (static_cast<double>(k) + 0.5) / static_cast<double>(size);
      const auto at = std::ranges::upper_bound(points.count, share * total) - points.count.begin() - 1;
      centres.push_back(points.value[std::min(static_cast<size_t>(at), points.value.size() - 1)]);
      even.push_back(low + share * (high - low));
    }
    double least = lloyd(points, centres);
    const auto try_from = [&](std::vector<double> other) {
      const double error = lloyd(points, other);
      if (!(error < least)) return;
      least = error;
      centres = std::move(other);
    };
    try_from(std::move(even));
    if (!start.empty()) try_from({start.begin(), start.end()});
  }
  return {centres.begin(), centres.end()};
}

}  // namespace

CodebookSearch::CodebookSearch(uint64_t count, int bits) : count_(count), bits_(bits) {
  if (sorts()) {
    values_.reserve(count);
  } else {
    counts_.resize(kBins);
    sums_.resize(kBins);
  }
}

bool CodebookSearch::sorts() const { return count_ <= kMostSorted; }

void CodebookSearch::add(int walk, std::span<const float> values) {
  if (values.empty()) return;
  if (sorts()) {
    values_.insert(values_.end(), values.begin(), values.end());
    return;
  }
  if (walk == 0) {
    const auto [low, high] = std::ranges::minmax(values);
    low_ = any_ ? std::min(low_, low) : low;
    high_ = any_ ? std::max(high_, high) : high;
    any_ = true;
    return;
  }
  const double width = bin_width(low_, high_);
  for (const float v : values) {
    const double position = (static_cast<double>(v) - static_cast<double>(low_)) / width;
    const size_t bin = std::min(static_cast<size_t>(position), kBins - 1);
    counts_[bin] += 1;
    sums_[bin] += static_cast<double>(v);
  }
}

std::vector<float> CodebookSearch::learn() {
  if (count_ == 0) return std::vector<float>(size_t{1} << bits_, 0.0F);
  return centres_of(sorts() ? points_of(values_) : points_of(counts_, sums_), bits_);
}

std::vector<float> learn_codebook(std::span<const float> values, int bits) {
  CodebookSearch search(values.size(), bits);
  for (int walk = 0; walk < search.walks(); ++walk) search.add(walk, values);
  return search.learn();
}

std::vector<float> learn_codebook(std::span<const float> values, std::span<const double> weights, int bits,
                                  std::span<const float> start) {
  Points points;
  if (values.size() <= kMostSorted) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
    for (size_t i = 0; i < order.size();) {
      const float value = values[order[i]];
      double weight = 0;
      for (; i < order.size() && values[order[i]] == value; ++i) weight += weights[order[i]];
      if (weight > 0) points.add(static_cast<double>(value), weight);
    }
  } else {
    const auto [low, high] = std::ranges::minmax(values);
    const double width = bin_width(low, high);
    std::vector<double> counts(kBins), sums(kBins);
    for (size_t i = 0; i < values.size(); ++i) {
      const double position = (static_cast<double>(values[i]) - static_cast<double>(low)) / width;
      const size_t bin = std::min(static_cast<size_t>(position), kBins - 1);
      counts[bin] += weights[i];
      sums[bin] += weights[i] * static_cast<double>(values[i]);
    }
    points = points_of(counts, sums);
  }
  return centres_of(points, bits, start);
}

}  // namespace crumb
