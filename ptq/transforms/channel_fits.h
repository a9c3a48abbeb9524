// Gains and shifts that give channels their intended means and variances (channel_sums.h).
#pragma once

#include <vector>

#include "ptq/samples/channel_sums.h"

namespace crumb::ptq {

/// Returns the deviation below which a channel is constant: a ten thousandth of the root of the mean intended
/// variance.
double least_deviation(const ChannelSums& sums);

/// Fits means alone: gains of 1.
std::vector<ChannelFit> mean_fits(const ChannelSums& sums);

/// Fits means and variances, by gains from 1/4 to 4; means alone in channels that are constant in either
/// network, or lose less that way.
std::vector<ChannelFit> moment_fits(const ChannelSums& sums);

}  // namespace crumb::ptq
