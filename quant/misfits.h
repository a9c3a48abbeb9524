// The error for weights whose shapes their specs do not fit: all of them at once, before any work.
#pragma once

#include <string>
#include <vector>

namespace crumb {

/// Throws Error(kFailed) with the first 20 and a count of the rest, unless there are none. Each entry says
/// which weight it is and what does not fit, as QuantSpec::misfit() does.
void refuse_misfits(const std::vector<std::string>& misfits);

}  // namespace crumb
