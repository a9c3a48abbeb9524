#include "ptq/precision/format_losses.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "ptq/precision/input_errors.h"

namespace crumb::ptq {
namespace {

using Group = FormatSpace::Group;

/// Returns a constant's losses, by format; 0 where one does not fit.
std::vector<double> losses_of(const Setting& setting, const FormatSpace::Unit& unit, const std::string& name,
                              const std::vector<QuantSpec>& specs, const OutputErrors& outputs) {
  std::vector<double> losses(specs.size());
  const auto of_layer = outputs.find(name);
  const auto& constant = *std::ranges::find(setting.plan.constants, name, &graph::PlannedConstant::value);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!unit.fits[i]) continue;
    losses[i] = of_layer != outputs.end() ? of_layer->second.at(specs[i].to_string())
                                          : own_error(specs[i], setting.graph.initializers.at(name),
                                                      constant.axes, setting.threads);
  }
  return losses;
}

std::size_t index_of(const std::vector<QuantSpec>& specs, const QuantSpec& spec) {
  return static_cast<std::size_t>(std::ranges::find(specs, spec) - specs.begin());
}

/// By constant.
using ConstantLosses = std::map<std::string, std::vector<double>>;

void weigh_by_predictions(const Setting& setting, const std::vector<QuantSpec>& specs,
                          const FloatResults& floats, ConstantLosses& losses) {
  const QuantSpec probe = probe_of(specs);
  const std::size_t at = index_of(specs, probe);
  const std::map<std::string, double> far = distances(setting, probe, floats);
  Proportion proportion;
  for (const auto& [name, of] : losses)
    if (far.contains(name)) proportion.add(far.at(name), of[at]);
  for (auto& [name, of] : losses) {
    const double factor = far.contains(name) ? proportion.factor(far.at(name), of[at]) : proportion.usual();
    for (double& loss : of) loss *= factor;
  }
}

std::vector<graph::LayerGroup> free_layers(const FormatSpace& space) {
  std::vector<graph::LayerGroup> layers;
  for (const Group& group : space.groups())
    if (group.is_free) layers.push_back(group.layers);
  return layers;
}

/// Returns losses of the free groups, in order.
std::vector<std::vector<double>> activation_losses(const Setting& setting, const FormatSpace& space,
                                                   const std::vector<graph::QuantPlan>& plans,
                                                   const LossRequest& requested, const FloatResults* floats) {
  const std::vector<graph::LayerGroup> layers = free_layers(space);
  if (layers.empty()) return {};
  const InputErrors errors = requested.sensitivity == Sensitivity::kError
                                 ? own_input_errors(setting, layers, plans)
                                 : output_input_errors(setting, layers, plans);
  std::vector<std::vector<double>> losses;
  for (const graph::LayerGroup& group : layers) {
    std::vector<double>& sums = losses.emplace_back(plans.size());
    for (const graph::FormatUnit& unit : group.units)
      for (const graph::WeightedNode& node : unit.nodes)
        for (std::size_t i = 0; i < plans.size(); ++i) sums[i] += errors.at(node.node)[i];
  }
  if (!floats) return losses;
  const std::vector<QuantSpec>& specs = space.requested().activations;
  const std::size_t at = index_of(specs, probe_of(specs));
  const std::vector<double> far = input_distances(setting, layers, plans[at], *floats);
  Proportion proportion;
  for (std::size_t g = 0; g < layers.size(); ++g) proportion.add(far[g], losses[g][at]);
  for (std::size_t g = 0; g < layers.size(); ++g) {
    const double factor = proportion.factor(far[g], losses[g][at]);
    for (double& loss : losses[g]) loss *= factor;
  }
  return losses;
}

}  // namespace

FormatLosses measure_losses(const Setting& setting, const FormatSpace& space,
                            const std::vector<graph::QuantPlan>& plans, const LossRequest& requested) {
  const std::vector<QuantSpec>& specs = space.requested().weights;
  const bool by_outputs = requested.sensitivity != Sensitivity::kError;
  const OutputErrors outputs = by_outputs ? output_errors(setting, specs) : OutputErrors();
  std::optional<FloatResults> floats;
  if (requested.sensitivity == Sensitivity::kKl)
    floats.emplace(setting, requested.distance, requested.probes);

  ConstantLosses constants;
  for (const Group& group : space.groups())
    for (const FormatSpace::Unit& unit : group.units)
      if (unit.is_free)
        for (const std::string& name : unit.unit.constants) {
          check_interrupt();
          constants[name] = losses_of(setting, unit, name, specs, outputs);
        }
  if (floats) weigh_by_predictions(setting, specs, *floats, constants);

  FormatLosses losses;
  const auto inputs = activation_losses(setting, space, plans, requested, floats ? &*floats : nullptr);
  std::size_t next = 0;
  for (const Group& group : space.groups()) {
    losses.activations.push_back(group.is_free ? inputs[next++] : std::vector<double>(1));
    auto& of_units = losses.weights.emplace_back();
    for (const FormatSpace::Unit& unit : group.units) {
      std::vector<double>& sums = of_units.emplace_back(unit.options());
      if (!unit.is_free) continue;
      for (const std::string& name : unit.unit.constants)
        for (std::size_t i = 0; i < specs.size(); ++i) sums[i] += constants.at(name)[i];
    }
  }
  return losses;
}

}  // namespace crumb::ptq
