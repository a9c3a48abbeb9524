// The state of crumb quantize with stages, next to the output (ptq/rounding/layer_files.h), and whose run it
// is.
#pragma once

#include <memory>

#include "formats/checkpoint/checkpoint.h"
#include "jobs/quantize.h"
#include "ptq/rounding/layer_files.h"
#include "ptq/stages.h"

namespace crumb::jobs {

/// Throws usage Error where the request sets `resume` or `memory` and no stage uses it.
void refuse_stage_fields(const QuantizeRequest& request, const Recipe& recipe, const Observer& observer);

/// Returns null where no stage of the recipe would use the files. `checkpoint`: the one whose network it is;
/// null for a graph's. Tells the observer what the run resumes with. Throws as LayerFiles does.
std::unique_ptr<ptq::LayerFiles> layer_files_of(const QuantizeRequest& request, const Recipe& recipe,
                                                const Checkpoint* checkpoint, const ptq::Setting& setting,
                                                Observer& observer);

}  // namespace crumb::jobs
