// Prints what crumb eval found.
#pragma once

#include "jobs/evaluate.h"

namespace crumb::cli {

struct EvalReportOptions {
  bool per_class = false;  ///< a line for each class, and the confusion matrix
};

void print(const jobs::EvaluateReport& report, const EvalReportOptions& options);

}  // namespace crumb::cli
