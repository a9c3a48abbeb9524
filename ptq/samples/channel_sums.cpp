#include "ptq/samples/channel_sums.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace crumb::ptq {

void ChannelSums::add(const graph::Tensor& made, const graph::Tensor& meant, std::size_t axis) {
  const std::vector<std::int64_t>& shape = meant.shape();
  const auto channels = static_cast<std::size_t>(shape.at(axis));
  if (made.shape() != shape || (!all_.empty() && channels != all_.size()))
    throw Error("a sample has " + std::to_string(channels) + " channels where there were " +
                std::to_string(all_.size()));
  const std::vector<float> a = made.to_floats(), b = meant.to_floats();
  if (a.empty()) return;
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= static_cast<std::size_t>(shape[i]);
  if (all_.empty()) {
    all_.resize(channels);
    for (std::size_t channel = 0; channel < channels; ++channel) {
      all_[channel].first_made = static_cast<double>(a[channel * inner]);
      all_[channel].first_meant = static_cast<double>(b[channel * inner]);
    }
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    Sums& sums = all_[i / inner % channels];
    const double x = static_cast<double>(a[i]) - sums.first_made,
                 y = static_cast<double>(b[i]) - sums.first_meant;
    sums.made += x;
    sums.meant += y;
    sums.made_squares += x * x;
    sums.meant_squares += y * y;
    sums.products += x * y;
  }
  count_ += a.size() / channels;
}

bool ChannelSums::is_finite() const {
  return std::ranges::all_of(all_, [](const Sums& sums) {
    return std::isfinite(sums.made_squares) && std::isfinite(sums.meant_squares);
  });
}

double ChannelSums::variance_made(std::size_t channel) const {
  const Sums& sums = all_[channel];
  return std::max(0.0, mean(sums.made_squares) - std::pow(mean(sums.made), 2));
}

double ChannelSums::variance_meant(std::size_t channel) const {
  const Sums& sums = all_[channel];
  return std::max(0.0, mean(sums.meant_squares) - std::pow(mean(sums.meant), 2));
}

double ChannelSums::error(std::size_t channel, const ChannelFit& fit) const {
  const Sums& sums = all_[channel];
  const double rest = fit.gain * sums.first_made + fit.shift - sums.first_meant;
  return std::max(0.0, fit.gain * fit.gain * sums.made_squares + sums.meant_squares -
                           2 * fit.gain * sums.products + 2 * rest * (fit.gain * sums.made - sums.meant) +
                           static_cast<double>(count_) * rest * rest);
}

double ChannelSums::squares(std::size_t channel, double factor, double shift) const {
  const Sums& sums = all_[channel];
  const double rest = factor * sums.first_meant + shift;
  return std::max(0.0, factor * factor * sums.meant_squares + 2 * rest * factor * sums.meant +
                           static_cast<double>(count_) * rest * rest);
}

}  // namespace crumb::ptq
