// An evaluation as a page. Internal to jobs.
#pragma once

#include "jobs/evaluate.h"
#include "report/report.h"

namespace crumb::jobs {

report::Report page_of(const EvaluateRequest& request, const EvaluateReport& report);

}  // namespace crumb::jobs
