// What rounding loses, and of matrices for the reports of stages that change them in floats.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Squares of numbers, and of what is lost of them.
struct RoundingLoss {
  double lost = 0, all = 0;

  void add(const graph::Tensor& error, const graph::Tensor& value);
  double share() const { return all > 0 ? lost / all : 0; }
};

/// Of numbers in the constant's place, by its spec. Precondition: it has one.
RoundingLoss rounding_loss(const graph::PlannedConstant& constant, const graph::Tensor& numbers, int threads);

/// Of each weight that becomes codes and has none yet: the squared error of rounding over its squares.
std::map<std::string, double> rounding_errors(const Setting& setting);

/// Those before and now, of the touched ones, in the plan's order.
StageReport report_of_matrices(const Stage& stage, const Setting& setting,
                               const std::set<std::string>& touched,
                               const std::map<std::string, double>& before);

}  // namespace crumb::ptq
