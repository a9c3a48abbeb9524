// The errors of rounding, and those of matrices for the reports of stages that change them in floats.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Sums of squares of numbers, and of their rounding errors.
struct RoundingLoss {
  double lost = 0, all = 0;

  void add(const graph::Tensor& error, const graph::Tensor& value);
  double share() const { return all > 0 ? lost / all : 0; }
};

/// Returns the loss of `numbers` rounded by the constant's spec. Precondition: it has one.
RoundingLoss rounding_loss(const graph::PlannedConstant& constant, const graph::Tensor& numbers, int threads);

/// Returns, for each weight that becomes codes and has none yet, the squared error of rounding over its
/// squares.
std::map<std::string, double> rounding_errors(const Setting& setting);

/// Reports errors before and now of the touched weights, in the plan's order.
StageReport report_of_matrices(const Stage& stage, const Setting& setting,
                               const std::set<std::string>& touched,
                               const std::map<std::string, double>& before);

}  // namespace crumb::ptq
