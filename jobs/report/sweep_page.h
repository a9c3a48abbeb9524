// What a sweep measured, as a page. Internal to jobs.
#pragma once

#include "eval/grid_table.h"
#include "jobs/sweep.h"
#include "report/report.h"

namespace crumb::jobs {

report::Report page_of(const SweepRequest& request, const eval::GridTable& table);

}  // namespace crumb::jobs
