// What rounding loses of matrices, for the reports of stages that change them in floats.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Of each weight that becomes codes and has none yet: the squared error of rounding over its squares.
std::map<std::string, double> rounding_errors(const Setting& setting);

/// Those before and now, of the touched ones, in the plan's order.
StageReport report_of_matrices(const Stage& stage, const Setting& setting,
                               const std::set<std::string>& touched,
                               const std::map<std::string, double>& before);

}  // namespace crumb::ptq
