// Reads a request's options from JSON, in which programs in other languages write them (jobs/c/crumb_jobs.h).
#pragma once

#include <string_view>

#include "jobs/quantize.h"

namespace crumb::jobs {

/// Sets the fields of a request that a JSON object names. Throws usage Error that names a key that is
/// unknown, or whose value has the wrong type.
void read_options(std::string_view json, QuantizeRequest& request);

}  // namespace crumb::jobs
