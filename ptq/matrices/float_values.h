// What samples make of values in the network in floats.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Calls `see` with the values of those names, inputs of the graph among them, for each sample. Names may repeat. Precondition:
/// the setting has an engine and samples.
void visit_float_values(const Setting& setting, const std::vector<std::string>& names,
                        const std::function<void(const std::map<std::string, graph::Tensor>&)>& see);

}  // namespace crumb::ptq
