// Learned widths of weights, for the report of crumb train.
#pragma once

#include "cli/output.h"
#include "tasks/train/trainer.h"

namespace crumb::cli {

/// {"budget", "unit", "limit", "used", "layers": [{"name", "weights", "bits", "learned"}]}; "learned" is null where the
/// width was given.
Json widths_json(const qat::LearnedWidths& widths);

void print_widths(const Json& widths);

}  // namespace crumb::cli
