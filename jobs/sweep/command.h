// What decides the numbers of a sweep's cells, for a folder that another run goes on with. Internal to jobs.
#pragma once

#include <nlohmann/json.hpp>

#include "jobs/network_quantization.h"
#include "jobs/sweep.h"

namespace crumb::jobs {

/// By the command's flags; of files where they lie, how long they are and when they were written. Not: the
/// metric and what it is against, since every cell has all; threads.
nlohmann::ordered_json command_of(const SweepRequest& request, const NetworkSource& source);

}  // namespace crumb::jobs
