// Sites of channel_scaling.h that a stage can still change.
#pragma once

#include <vector>

#include "ptq/stages.h"
#include "ptq/transforms/channel_scaling.h"

namespace crumb::ptq {

/// Returns the sites whose constants have no codes yet; without `of_norms`, only those that begin with a
/// matrix. Throws Error, which names the stage, where there are none.
std::vector<ScalingSite> open_sites(const Stage& stage, const Setting& setting, bool of_norms);

}  // namespace crumb::ptq
