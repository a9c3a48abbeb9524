// Sites of channel_scaling.h that a stage may still change.
#pragma once

#include <vector>

#include "ptq/stages.h"
#include "ptq/transforms/channel_scaling.h"

namespace crumb::ptq {

/// Those whose constants have no codes yet; where not `of_norms`, those behind matrices alone. Throws Error, which names the
/// stage, where there are none.
std::vector<ScalingSite> open_sites(const Stage& stage, const Setting& setting, bool of_norms);

}  // namespace crumb::ptq
