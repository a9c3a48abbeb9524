// Learned widths of weights, for the report of a run.
#pragma once

#include "qat/weights/learned_widths.h"
#include "training/json.h"

namespace crumb::training {

/// {"budget", "unit", "limit", "used", "layers": [{"name", "weights", "bits", "learned"}]}; "learned" is null
/// where the width was given.
Json widths_json(const qat::LearnedWidths& widths);

}  // namespace crumb::training
