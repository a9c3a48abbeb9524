// What quantizing made, as a page. Internal to jobs.
#pragma once

#include "jobs/quantize.h"
#include "report/report.h"

namespace crumb::jobs {

/// Reads the codes back from what was written.
report::Report page_of(const QuantizeRequest& request, const QuantizeReport& report);

}  // namespace crumb::jobs
