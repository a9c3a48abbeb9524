// Compares a value in two networks on samples, channel by channel: sums that give means, variances and
// errors.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/tensor.h"

namespace crumb::ptq {

/// For one channel: made * gain + shift approximates what is meant.
struct ChannelFit {
  double gain = 1, shift = 0;
};

class ChannelSums {
 public:
  /// Adds the same samples of both networks, of one shape, with channels on axis `axis`. Throws Error where
  /// the number of channels differs from earlier calls.
  void add(const graph::Tensor& made, const graph::Tensor& meant, std::size_t axis);

  std::size_t channels() const { return all_.size(); }
  std::size_t count() const { return count_; }  ///< numbers of each channel
  bool is_finite() const;

  double mean_made(std::size_t channel) const { return all_[channel].first_made + mean(all_[channel].made); }
  double mean_meant(std::size_t channel) const {
    return all_[channel].first_meant + mean(all_[channel].meant);
  }
  double variance_made(std::size_t channel) const;
  double variance_meant(std::size_t channel) const;

  /// Returns the sum of (gain made + shift - meant)^2.
  double error(std::size_t channel, const ChannelFit& fit) const;
  /// Returns the sum of (factor meant + shift)^2.
  double squares(std::size_t channel, double factor, double shift) const;

 private:
  /// Sums of differences from each channel's first number, so that a large mean costs no digits.
  struct Sums {
    double first_made = 0, first_meant = 0;
    double made = 0, meant = 0, made_squares = 0, meant_squares = 0, products = 0;
  };
  double mean(double sum) const { return count_ == 0 ? 0 : sum / static_cast<double>(count_); }

  std::vector<Sums> all_;
  std::size_t count_ = 0;
};

}  // namespace crumb::ptq
