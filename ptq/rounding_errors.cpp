#include "ptq/rounding_errors.h"

#include <cmath>
#include <vector>

#include "graph/quantized_constant.h"

namespace crumb::ptq {

std::map<std::string, double> rounding_errors(const Setting& setting) {
  std::map<std::string, double> errors;
  for (const graph::PlannedConstant& constant : setting.plan.constants) {
    if (!constant.spec || !constant.is_weight || constant.rounded) continue;
    const graph::Tensor& tensor = setting.graph.initializers.at(constant.value);
    if (tensor.rank() == 0) continue;
    const std::vector<float> values = tensor.to_floats(),
                             made = graph::quantize_constant(*constant.spec, tensor, constant.output_axis,
                                                             constant.value, setting.threads)
                                        .value()
                                        .to_floats();
    double lost = 0, all = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      lost += std::pow(static_cast<double>(made[i]) - static_cast<double>(values[i]), 2);
      all += std::pow(static_cast<double>(values[i]), 2);
    }
    errors[constant.value] = all > 0 ? lost / all : 0;
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
