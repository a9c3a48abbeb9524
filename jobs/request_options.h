// A request's options as JSON: how programs in other languages say them (jobs/c/crumb_jobs.h).
#pragma once

#include <string_view>

#include "jobs/quantize.h"

namespace crumb::jobs {

/// Sets what a JSON object says of a request. Throws usage Error that names a key that is unknown, or whose
/// value is of another type than it takes.
void read_options(std::string_view json, QuantizeRequest& request);

}  // namespace crumb::jobs
