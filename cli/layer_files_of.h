// The state of crumb quantize with stages, beside the output (ptq/layer_files.h): whose run it is.
#pragma once

#include <memory>

#include "cli/quantize_graph.h"
#include "formats/checkpoint/checkpoint.h"
#include "ptq/layer_files.h"
#include "ptq/stages.h"

namespace crumb::cli {

/// Throws usage Error where --resume or --memory is given and no stage has a use for it.
void refuse_stage_flags(const QuantizeGraph& wish, const Recipe& recipe);

/// Null where no stage of the recipe's would use it. `checkpoint`: whose network it is, null where it is a graph's. Says on stderr, with --resume, what it goes on with. Throws as LayerFiles does.
std::unique_ptr<ptq::LayerFiles> layer_files_of(const QuantizeGraph& wish, const Recipe& recipe,
                                                const Checkpoint* checkpoint, const ptq::Setting& setting);

}  // namespace crumb::cli
