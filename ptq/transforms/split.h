// The stage split: outlier channel splitting (Zhao et al. 2019, arXiv:1901.09504). Duplicates the input
// channels of layers that have the largest weights, and gives each copy half of the weight: the float network
// stays the same, and the range to be rounded shrinks. Sites are those of split_sites.h.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Reports the loss of rounding of the matrices that take duplicated channels, before and after, with the
/// copies' codes added. A site where that is no smaller stays as it was, with a note; notes also name layers
/// whose input channels cannot be duplicated, and why. The number of duplicated channels is the share,
/// rounded up, and increased to what groups of convolutions and specs need; where that is more than a
/// quarter, the site stays as it was. Throws Error where there is no site at all; usage Error where the share
/// is above 1.
StageReport split(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
