// Computes values of the float network on samples.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Calls `see` for each sample with the values of those names, which may be graph inputs and may repeat.
/// Precondition: the setting has an engine and samples.
void visit_float_values(const Setting& setting, const std::vector<std::string>& names,
                        const std::function<void(const std::map<std::string, graph::Tensor>&)>& see);

}  // namespace crumb::ptq
