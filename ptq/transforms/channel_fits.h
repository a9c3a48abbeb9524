// By which gains and shifts channels get the moments that are meant (channel_sums.h).
#pragma once

#include <vector>

#include "ptq/samples/channel_sums.h"

namespace crumb::ptq {

/// What is smaller than that is a constant channel's deviation: a ten thousandth of the root of the mean of meant variances.
double least_deviation(const ChannelSums& sums);

/// Means alone: gains of 1.
std::vector<ChannelFit> mean_fits(const ChannelSums& sums);

/// Means and variances, by gains from 1/4 to 4; means alone in channels that are constant in either, or lose less so.
std::vector<ChannelFit> moment_fits(const ChannelSums& sums);

}  // namespace crumb::ptq
