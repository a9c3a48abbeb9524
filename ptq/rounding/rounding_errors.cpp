#include "ptq/rounding/rounding_errors.h"

#include <cmath>
#include <vector>

#include "graph/quantized_constant.h"

namespace crumb::ptq {

void RoundingLoss::add(const graph::Tensor& error, const graph::Tensor& value) {
  for (const float x : error.to_floats()) lost += static_cast<double>(x) * static_cast<double>(x);
  for (const float x : value.to_floats()) all += static_cast<double>(x) * static_cast<double>(x);
}

RoundingLoss rounding_loss(const graph::PlannedConstant& constant, const graph::Tensor& numbers,
                           int threads) {
  const std::vector<float> values = numbers.to_floats(),
                           made = graph::quantize_constant(*constant.spec, numbers, constant.axes,
                                                           constant.value, threads)
                                      .value()
                                      .to_floats();
  RoundingLoss loss;
  for (std::size_t i = 0; i < values.size(); ++i) {
    loss.lost += std::pow(static_cast<double>(made[i]) - static_cast<double>(values[i]), 2);
    loss.all += std::pow(static_cast<double>(values[i]), 2);
  }
  return loss;
}

std::map<std::string, double> rounding_errors(const Setting& setting) {
  std::map<std::string, double> errors;
  for (const graph::PlannedConstant& constant : setting.plan.constants) {
    if (!constant.spec || !constant.is_weight || constant.rounded) continue;
    const graph::Tensor& tensor = setting.graph.initializers.at(constant.value);
    if (tensor.rank() == 0) continue;
    errors[constant.value] = rounding_loss(constant, tensor, setting.threads).share();
  }
  return errors;
}

StageReport report_of_matrices(const Stage& stage, const Setting& setting,
                               const std::set<std::string>& touched,
                               const std::map<std::string, double>& before) {
  const std::map<std::string, double> after = rounding_errors(setting);
  StageReport report{.stage = to_string(stage), .measure = "matrices", .layers = {}, .notes = {}};
  for (const graph::PlannedConstant& constant : setting.plan.constants)
    if (touched.contains(constant.value) && before.contains(constant.value))
      report.layers.push_back({constant.value, before.at(constant.value), after.at(constant.value)});
  return report;
}

}  // namespace crumb::ptq
