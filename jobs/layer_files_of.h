// The state of crumb quantize with stages, beside the output (ptq/rounding/layer_files.h): whose run it is.
#pragma once

#include <memory>

#include "formats/checkpoint/checkpoint.h"
#include "jobs/quantize.h"
#include "ptq/rounding/layer_files.h"
#include "ptq/stages.h"

namespace crumb::jobs {

/// Throws usage Error where the request resumes or has memory and no stage has a use for it.
void refuse_stage_fields(const QuantizeRequest& request, const Recipe& recipe, const Observer& observer);

/// Null where no stage of the recipe's would use it. `checkpoint`: whose network it is, null where it is a
/// graph's. The observer hears what it goes on with. Throws as LayerFiles does.
std::unique_ptr<ptq::LayerFiles> layer_files_of(const QuantizeRequest& request, const Recipe& recipe,
                                                const Checkpoint* checkpoint, const ptq::Setting& setting,
                                                Observer& observer);

}  // namespace crumb::jobs
