// The stage split: outlier channel splitting (Zhao et al. 2019, arXiv:1901.09504). The channels that layers take with the largest
// weights are doubled where they are made, and each copy gets a half of the weight: the network in floats stays, the range of
// what is rounded shrinks. Sites are those of split_sites.h.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Reports what rounding loses of the matrices that take doubled channels, before and after, the copies' codes added up. A site
/// where that is no less stays as it was, and a note says so; so do notes of layers whose inputs' channels cannot be doubled,
/// and why. The number of doubled channels is the share, rounded up, and further up to what groups of convolutions and
/// specs need; where that is more than a quarter, the site stays. Throws Error where there is no site at all; usage Error where
/// the share is above 1.
StageReport split(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
