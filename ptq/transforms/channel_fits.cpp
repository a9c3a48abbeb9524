#include "ptq/transforms/channel_fits.h"

#include <algorithm>
#include <cmath>

namespace crumb::ptq {
namespace {

constexpr double kConstant = 1e-4;
constexpr double kMostGain = 4;

}  // namespace

double least_deviation(const ChannelSums& sums) {
  double all = 0;
  for (std::size_t c = 0; c < sums.channels(); ++c) all += sums.variance_meant(c);
  return kConstant * std::sqrt(all / static_cast<double>(std::max<std::size_t>(sums.channels(), 1)));
}

std::vector<ChannelFit> mean_fits(const ChannelSums& sums) {
  std::vector<ChannelFit> fits(sums.channels());
  for (std::size_t c = 0; c < fits.size(); ++c) fits[c].shift = sums.mean_meant(c) - sums.mean_made(c);
  return fits;
}

std::vector<ChannelFit> moment_fits(const ChannelSums& sums) {
  const double least = least_deviation(sums);
  std::vector<ChannelFit> fits = mean_fits(sums);
  for (std::size_t c = 0; c < fits.size(); ++c) {
    const double made = std::sqrt(sums.variance_made(c)), meant = std::sqrt(sums.variance_meant(c));
    if (!(made > least) || !(meant > least)) continue;
    const double gain = std::clamp(meant / made, 1 / kMostGain, kMostGain);
    const ChannelFit both{.gain = gain, .shift = sums.mean_meant(c) - gain * sums.mean_made(c)};
    if (sums.error(c, both) < sums.error(c, fits[c])) fits[c] = both;
  }
  return fits;
}

}  // namespace crumb::ptq
