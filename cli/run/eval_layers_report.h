// What crumb eval --layers prints.
#pragma once

#include "jobs/evaluate_layer.h"

namespace crumb::cli {

void print(const jobs::EvaluateLayers& layers);

}  // namespace crumb::cli
