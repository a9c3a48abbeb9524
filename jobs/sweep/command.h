// Records what decides the numbers of a sweep's cells, so that a later run can continue in its folder.
// Internal to jobs.
#pragma once

#include <nlohmann/json.hpp>

#include "jobs/network_quantization.h"
#include "jobs/sweep.h"

namespace crumb::jobs {

/// Returns the request by the command's flags; of files, their paths, sizes and times of change. Leaves out
/// the metric and what it is against, since every cell has all of them, and threads.
nlohmann::ordered_json command_of(const SweepRequest& request, const NetworkSource& source);

}  // namespace crumb::jobs
