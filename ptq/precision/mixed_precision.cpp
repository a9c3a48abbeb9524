#include "ptq/precision/mixed_precision.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/files/text.h"
#include "graph/quantize/calibrate.h"
#include "ptq/precision/network_budget.h"

namespace crumb::ptq {
namespace {

using graph::QuantPlan;
using Group = FormatSpace::Group;
using Unit = FormatSpace::Unit;

/// Returns one plan for each activation format, with everything in it.
std::vector<QuantPlan> calibrated_plans(const Setting& setting, const FormatSpace& space) {
  std::vector<QuantPlan> plans;
  for (std::size_t shared = 0; shared < std::max<std::size_t>(space.requested().activations.size(), 1);
       ++shared) {
    QuantPlan plan = space.plan_of(space.uniform(0, shared));
    if (plan.needs_calibration()) {
      if (!setting.engine)
        throw usage_error("scales of activations need calibration data: give --data; the first is that of " +
                          quote_text(plan.edges[0].value));
      graph::calibrate(setting.graph, *setting.engine, setting.samples, plan);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::vector<JointGroup> joint_groups(const FormatSpace& space, const FormatLosses& losses,
                                     const NetworkBudget& budget) {
  std::vector<JointGroup> groups;
  for (std::size_t g = 0; g < space.groups().size(); ++g) {
    const Group& group = space.groups()[g];
    JointGroup joint{.losses = losses.activations[g], .layers = {}};
    for (std::size_t u = 0; u < group.units.size(); ++u) {
      const Unit& unit = group.units[u];
      LayerOptions options(unit.options());
      for (std::size_t own = 0; own < options.size(); ++own) {
        for (std::size_t shared = 0; shared < joint.losses.size(); ++shared) {
          const bool fits = !unit.is_free || unit.fits[own];
          const auto cost = fits ? budget.cost(g, u, own, shared) : std::nullopt;
          options[own].push_back(
              cost ? std::optional(AssignmentOption{.cost = *cost, .loss = losses.weights[g][u][own]})
                   : std::nullopt);
        }
      }
      joint.layers.push_back(std::move(options));
    }
    groups.push_back(std::move(joint));
  }
  return groups;
}

/// Returns the sum of the groups' least costs; nothing where a group has no options that can be combined.
std::optional<std::uint64_t> least_of(const std::vector<JointGroup>& groups) {
  std::uint64_t sum = 0;
  for (const JointGroup& group : groups) {
    const std::optional<std::uint64_t> least = least_cost(group);
    if (!least) return std::nullopt;
    sum += *least;
  }
  return sum;
}

/// Whether no budget would allow a smaller loss.
bool is_best_everywhere(const FormatSpace& space, const FormatLosses& losses, const FormatChoice& choice) {
  for (std::size_t g = 0; g < choice.size(); ++g) {
    if (std::ranges::min(losses.activations[g]) < losses.activations[g][choice[g].shared]) return false;
    for (std::size_t u = 0; u < choice[g].own.size(); ++u) {
      const Unit& unit = space.groups()[g].units[u];
      const std::vector<double>& of = losses.weights[g][u];
      for (std::size_t own = 0; unit.is_free && own < of.size(); ++own)
        if (unit.fits[own] && of[own] < of[choice[g].own[u]]) return false;
    }
  }
  return true;
}

std::map<std::string, std::size_t> uses_of(const FormatSpace& space, const FormatChoice& choice) {
  std::map<std::string, std::size_t> uses;
  for (std::size_t g = 0; g < choice.size(); ++g) {
    const Group& group = space.groups()[g];
    for (std::size_t u = 0; u < choice[g].own.size(); ++u) {
      const Unit& unit = group.units[u];
      const bool takes = group.is_free && !unit.unit.nodes.empty();
      if (!unit.is_free && !takes) continue;
      std::string text =
          unit.is_free ? space.requested().weights[choice[g].own[u]].to_string() : "a spec of its own";
      if (takes) text += " takes " + space.requested().activations[choice[g].shared].to_string();
      ++uses[text];
    }
  }
  return uses;
}

/// Returns the chosen plan with the scales that are known already.
QuantPlan calibrated(QuantPlan plan, const std::vector<QuantPlan>& plans) {
  for (graph::PlannedEdge& edge : plan.edges) {
    for (const QuantPlan& known : plans) {
      const auto same = std::ranges::find_if(known.edges, [&](const graph::PlannedEdge& other) {
        return other.value == edge.value && other.spec == edge.spec;
      });
      if (same == known.edges.end()) continue;
      edge.scale = same->scale;
      edge.zero_point = same->zero_point;
      break;
    }
  }
  return plan;
}

double amount_of(const Target& target) {
  if (target.bops > 0) return static_cast<double>(target.bops);
  return target.accumulator_bits > 0 ? target.accumulator_bits : target.bits_per_weight;
}

}  // namespace

MixedChoice choose_formats(Setting& setting, const MixedRequest& requested) {
  const FormatSpace space(setting.graph, requested.formats);
  const std::vector<QuantPlan> plans = calibrated_plans(setting, space);
  setting.plan = plans[0];
  const std::unique_ptr<NetworkBudget> budget = network_budget(
      space, plans, {.target = requested.target, .shapes = requested.shapes, .threads = setting.threads});
  // Without losses first: an unreachable target is reported before anything is measured.
  FormatLosses losses;
  for (const Group& group : space.groups()) {
    losses.activations.emplace_back(space.shared_options(group));
    auto& units = losses.weights.emplace_back();
    for (const Unit& unit : group.units) units.emplace_back(unit.options());
  }
  const std::optional<std::uint64_t> least = least_of(joint_groups(space, losses, *budget));
  const std::optional<std::uint64_t> limit = budget->limit();
  if (!least || !limit || *least > *limit) budget->refuse(least);

  losses = measure_losses(setting, space, plans, requested.losses);
  const JointAssignment found = assign_jointly(joint_groups(space, losses, *budget), *limit).value();
  BudgetUse use = budget->used(calibrated(space.plan_of(found.groups), plans));
  MixedChoice choice{.recipe = space.recipe_of(found.groups),
                     .loss = found.loss,
                     .bound = found.bound,
                     .used = use.amount,
                     .without_register = std::move(use.without_register),
                     .best_everywhere = is_best_everywhere(space, losses, found.groups),
                     .uses = uses_of(space, found.groups)};
  if (budget->counts_too_much() && !choice.best_everywhere) choice.bound = 0;
  if (choice.used > amount_of(requested.target))
    throw Error(
        "the formats that were chosen need more together than one by one: " + std::to_string(choice.used) +
        ", the target is " + std::to_string(amount_of(requested.target)));
  return choice;
}

}  // namespace crumb::ptq
