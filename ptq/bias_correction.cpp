#include "ptq/bias_correction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "graph/quantize/apply.h"
#include "ptq/biased_layers.h"
#include "ptq/finite_constants.h"
#include "ptq/float_values.h"
#include "ptq/settled_codes.h"
#include "ptq/weight_rows.h"

namespace crumb::ptq {
namespace {

using graph::Tensor;

struct Corrected {
  BiasedLayer biased;
  std::vector<double> sums;  ///< of what comes in, group by group
  double samples = 0;        ///< of each group
};

void gather(const Setting& setting, std::vector<Corrected>& layers) {
  std::vector<std::string> names;
  for (const Corrected& one : layers) names.push_back(one.biased.layer.input);
  visit_float_values(setting, names, [&](const std::map<std::string, Tensor>& values) {
    for (Corrected& one : layers) {
      const SampledLayer& layer = one.biased.layer;
      visit_samples(setting.graph.nodes[layer.node], setting.graph, layer, values.at(layer.input),
                    [&](std::size_t group, const SampleColumns& x) {
                      if (group == 0) one.samples += static_cast<double>(x.samples);
                      for (std::size_t k = 0; k < x.size(); ++k)
                        for (std::size_t t = 0; t < x.samples; ++t)
                          one.sums[group * layer.columns + k] +=
                              static_cast<double>(x.values[k * x.samples + t]);
                    });
    }
  });
}

LayerReport correct(Setting& setting, const Corrected& one) {
  const SampledLayer& layer = one.biased.layer;
  graph::PlannedConstant& constant = setting.plan.constants[layer.constant];
  const Tensor& tensor = setting.graph.initializers.at(constant.value);
  constant.rounded = graph::codes_of(constant, setting.graph, setting.threads);
  const std::vector<float> meant = weight_rows(tensor, constant.output_axis).values,
                           made = weight_rows(constant.rounded->value(), constant.output_axis).values;
  const Tensor bias = setting.graph.initializers.at(one.biased.bias);
  std::vector<float> biases = bias.to_floats();
  double all = 0, before = 0, after = 0;
  for (std::size_t row = 0; row < biases.size(); ++row) {
    double mean = 0, lost = 0;
    for (std::size_t k = 0; k < layer.columns; ++k) {
      const double x = one.sums[row / layer.rows * layer.columns + k] / std::max(one.samples, 1.0);
      const auto w = static_cast<double>(meant[row * layer.columns + k]);
      mean += w * x;
      lost += (w - static_cast<double>(made[row * layer.columns + k])) * x;
    }
    if (!std::isfinite(lost))
      throw Error("what " + constant.node + " takes, value " + quote_text(layer.input) +
                  ", holds inf or NaN on the samples");
    const auto old = static_cast<double>(biases[row]);
    biases[row] = static_cast<float>(old + lost);
    all += (mean + old) * (mean + old);
    before += lost * lost;
    after += std::pow(old + lost - static_cast<double>(biases[row]), 2);
  }
  change_constant(setting, one.biased.bias, Tensor::floats(bias.shape(), biases));
  return {.layer = constant.value, .before = all > 0 ? before / all : 0, .after = all > 0 ? after / all : 0};
}

}  // namespace

StageReport bias_correction(const Stage& stage, Setting& setting) {
  require_samples(stage, setting);
  StageReport report{.stage = to_string(stage), .measure = "mean outputs", .layers = {}, .notes = {}};
  BiasedLayers found = biased_layers(setting);
  if (found.layers.empty())
    throw Error("the stage bias_correction finds no layer that becomes codes and has a bias of its own");
  if (found.without > 0)
    report.notes.push_back(count_text(found.without, "layer") + " without a bias of its own: not corrected");
  std::vector<Corrected> layers;
  for (BiasedLayer& layer : found.layers) {
    require_finite(stage.name, setting.graph, layer.bias);
    const std::size_t inputs = layer.layer.groups * layer.layer.columns;
    layers.push_back({.biased = std::move(layer), .sums = std::vector<double>(inputs)});
  }
  gather(setting, layers);
  for (const Corrected& one : layers) report.layers.push_back(correct(setting, one));
  return report;
}

}  // namespace crumb::ptq
