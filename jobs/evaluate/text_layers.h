// Measures the layers of language models and sentence encoders, on texts.
#pragma once

#include "jobs/evaluate.h"

namespace crumb::jobs {

/// Puts layers into the report's models. Samples are as crumb quantize takes them from such data: lines, or
/// windows of 512 tokens with no past. Throws usage Error where the baseline is no folder or GGUF file of a
/// known architecture.
void measure_text_layers(const EvaluateRequest& request, EvaluateReport& report, Observer& observer);

}  // namespace crumb::jobs
