#include "ptq/precision/network_budget.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "ptq/matrices/weight_rows.h"
#include "quant/quantizer.h"

namespace crumb::ptq {
namespace {

using graph::PlannedConstant;
using graph::QuantPlan;
using Group = FormatSpace::Group;
using Unit = FormatSpace::Unit;

[[noreturn]] void refuse_target(const std::string& target, const std::string& least,
                                const std::vector<std::string>& uncertain = {}) {
  throw usage_error("the target of " + target + " is below the least that these formats give here: " + least +
                    (uncertain.empty()
                         ? ""
                         : ", counted by the widest formats for what several layers' formats decide (" +
                               count_text(uncertain.size(), "node") + ", the first makes " +
                               quote_text(uncertain[0]) + ")"));
}

/// Rounds up, so that the text is accepted as a target.
std::string bits_text(double bits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4f", std::ceil(bits * 1e4 + 1e-6) / 1e4);
  return std::string(text) + "bpw";
}

/// Counts bytes of codes, scales and codebooks.
class BitsBudget final : public NetworkBudget {
 public:
  BitsBudget(const FormatSpace& space, const QuantPlan& plan, double bits) : space_(space), bits_(bits) {
    for (const PlannedConstant& constant : plan.constants) {
      if (!constant.spec) continue;
      const graph::Tensor& value = space.graph().initializers.at(constant.value);
      layouts_[constant.value] = {value.shape(), constant.axes};
      weights_ += static_cast<std::uint64_t>(value.size());
      fixed_ += bytes(*constant.spec, constant.value);
    }
    for (const Group& group : space.groups())
      for (const Unit& unit : group.units)
        if (unit.is_free)
          for (const PlannedConstant& constant : plan.constants)
            if (unit.unit.constants.contains(constant.value)) fixed_ -= bytes(*constant.spec, constant.value);
  }

  std::optional<std::uint64_t> cost(std::size_t group, std::size_t unit, std::size_t own,
                                    std::size_t) const override {
    const Unit& one = space_.groups()[group].units[unit];
    std::uint64_t sum = 0;
    if (!one.is_free) return sum;
    for (const std::string& name : one.unit.constants) sum += bytes(space_.requested().weights[own], name);
    return sum;
  }

  std::optional<std::uint64_t> limit() const override {
    constexpr double kMost = 64;  // more bits than any format has
    auto all = static_cast<std::uint64_t>(std::min(bits_, kMost) / 8 * static_cast<double>(weights_)) + 1;
    while (all > 0 && bits_per_weight(all, weights_) > bits_) --all;
    return all >= fixed_ ? std::optional(all - fixed_) : std::nullopt;
  }

  [[noreturn]] void refuse(std::optional<std::uint64_t> least) const override {
    refuse_target(number_text(bits_) + "bpw", bits_text(bits_per_weight(fixed_ + *least, weights_)));
  }

  BudgetUse used(const QuantPlan& plan) const override {
    std::uint64_t sum = 0;
    for (const PlannedConstant& constant : plan.constants)
      if (constant.spec) sum += bytes(*constant.spec, constant.value);
    return {.amount = bits_per_weight(sum, weights_), .without_register = {}};
  }

 private:
  std::uint64_t bytes(const QuantSpec& spec, const std::string& name) const {
    const auto& [shape, axes] = layouts_.at(name);
    return graph::code_layout_of(spec, shape, axes).take().total_bytes();
  }

  const FormatSpace& space_;
  const double bits_;
  std::map<std::string, std::pair<std::vector<std::int64_t>, graph::MatrixAxes>> layouts_;
  std::uint64_t fixed_ = 0, weights_ = 0;
};

/// Counts parts of bit operations, so that rounding up adds less than one of them over all nodes.
class OperationsBudget final : public NetworkBudget {
 public:
  OperationsBudget(const FormatSpace& space, const std::vector<QuantPlan>& plans,
                   const BudgetRequest& requested)
      : space_(space), requested_(requested), counts_(space, plans, requested.shapes, requested.threads) {
    constexpr double kMost = 0x1p60;
    double all = static_cast<double>(requested.target.bops);
    for (std::size_t g = 0; g < space.groups().size(); ++g)
      for (std::size_t u = 0; u < space.groups()[g].units.size(); ++u) all += most_of(g, u);
    while (parts_ > 1 && all * parts_ > kMost) parts_ /= 2;
  }

  std::optional<std::uint64_t> cost(std::size_t group, std::size_t unit, std::size_t own,
                                    std::size_t shared) const override {
    return static_cast<std::uint64_t>(std::ceil(counts_.of(group, unit, own, shared).bops * parts_));
  }

  std::optional<std::uint64_t> limit() const override {
    const double left = static_cast<double>(requested_.target.bops) - counts_.rest().bops;
    return left >= 0 ? std::optional(static_cast<std::uint64_t>(left * parts_)) : std::nullopt;
  }

  [[noreturn]] void refuse(std::optional<std::uint64_t> least) const override {
    const double all = counts_.rest().bops + static_cast<double>(*least) / parts_;
    refuse_target(std::to_string(requested_.target.bops) + "bops",
                  std::to_string(static_cast<std::uint64_t>(std::ceil(all))) + "bops", counts_.uncertain());
  }

  bool counts_too_much() const override { return !counts_.uncertain().empty(); }

  BudgetUse used(const QuantPlan& plan) const override {
    return {
        .amount = cost_of_plan(space_.graph(), plan, requested_.shapes, requested_.threads).dense.bops_qap,
        .without_register = {}};
  }

 private:
  double most_of(std::size_t group, std::size_t unit) const {
    double most = 0;
    const Group& one = space_.groups()[group];
    for (std::size_t own = 0; own < one.units[unit].options(); ++own)
      for (std::size_t shared = 0; shared < space_.shared_options(one); ++shared)
        most = std::max(most, counts_.of(group, unit, own, shared).bops);
    return most;
  }

  const FormatSpace& space_;
  const BudgetRequest requested_;
  const FormatCounts counts_;
  double parts_ = 1024;
};

/// Nothing is summed: each layer's register fits, or does not.
class RegisterBudget final : public NetworkBudget {
 public:
  RegisterBudget(const FormatSpace& space, const std::vector<QuantPlan>& plans,
                 const BudgetRequest& requested)
      : space_(space), requested_(requested), counts_(space, plans, requested.shapes, requested.threads) {}

  std::optional<std::uint64_t> cost(std::size_t group, std::size_t unit, std::size_t own,
                                    std::size_t shared) const override {
    const auto bits = bits_of(counts_.of(group, unit, own, shared));
    return bits && *bits <= requested_.target.accumulator_bits ? std::optional<std::uint64_t>(0)
                                                               : std::nullopt;
  }

  std::optional<std::uint64_t> limit() const override {
    const int rest = counts_.rest().register_bits.value_or(0);
    return rest <= requested_.target.accumulator_bits ? std::optional<std::uint64_t>(0) : std::nullopt;
  }

  [[noreturn]] void refuse(std::optional<std::uint64_t>) const override {
    int least = counts_.rest().register_bits.value_or(0);
    std::string where = counts_.rest().widest;
    for (std::size_t g = 0; g < space_.groups().size(); ++g) {
      const Narrowest of_group = narrowest(g);
      if (!of_group.bits) refuse_without_register(of_group.where);
      if (*of_group.bits > least) {
        least = *of_group.bits;
        where = of_group.where;
      }
    }
    refuse_target(std::to_string(requested_.target.accumulator_bits) + "acc",
                  std::to_string(least) + "acc, by " + quote_text(where), counts_.uncertain());
  }

  bool counts_too_much() const override { return !counts_.uncertain().empty(); }

  BudgetUse used(const QuantPlan& plan) const override {
    NodeCounts all;
    BudgetUse use;
    for (const analysis::NodeCost& node :
         cost_of_plan(space_.graph(), plan, requested_.shapes, requested_.threads).nodes) {
      all.add(node);
      if (!node.accumulator) use.without_register.push_back(*all.without_register);
    }
    use.amount = all.register_bits.value_or(0);
    return use;
  }

 private:
  /// Units without nodes need no register.
  static std::optional<int> bits_of(const NodeCounts& counts) {
    return counts.without_register ? std::nullopt : std::optional(counts.register_bits.value_or(0));
  }

  struct Narrowest {
    std::optional<int> bits;
    std::string where;  ///< the node with that register, or without one
  };

  /// The narrowest registers that a group can have.
  Narrowest narrowest(std::size_t g) const {
    const Group& group = space_.groups()[g];
    Narrowest best;
    for (std::size_t shared = 0; shared < space_.shared_options(group); ++shared) {
      Narrowest all{.bits = 0, .where = ""};
      for (std::size_t u = 0; u < group.units.size(); ++u) {
        const Narrowest one = narrowest(g, u, shared);
        if (!one.bits || (all.bits && *one.bits > *all.bits)) all = one;
        if (!one.bits) break;
      }
      if (!best.bits || (all.bits && *all.bits < *best.bits)) best = all;
    }
    return best;
  }

  Narrowest narrowest(std::size_t g, std::size_t u, std::size_t shared) const {
    const Unit& unit = space_.groups()[g].units[u];
    Narrowest best;
    for (std::size_t own = 0; own < unit.options(); ++own) {
      if (unit.is_free && !unit.fits[own]) continue;
      const NodeCounts& counts = counts_.of(g, u, own, shared);
      const std::optional<int> bits = bits_of(counts);
      if (bits && (!best.bits || *bits < *best.bits)) best = {.bits = bits, .where = counts.widest};
      if (!bits && !best.bits) best.where = *counts.without_register;
    }
    return best;
  }

  [[noreturn]] static void refuse_without_register(const std::string& node) {
    throw usage_error("layer " + quote_text(node) +
                      " adds up no integers or minifloats of one scale in any of these formats, so it has no "
                      "register; expected weights with one scale for each channel or for the tensor, as in "
                      "int4:channel, and --activation-formats or --activations of one scale, as in "
                      "uint8:tensor, or --exclude for the layer");
  }

  const FormatSpace& space_;
  const BudgetRequest requested_;
  const FormatCounts counts_;
};

}  // namespace

std::unique_ptr<NetworkBudget> network_budget(const FormatSpace& space, const std::vector<QuantPlan>& plans,
                                              const BudgetRequest& requested) {
  if (requested.target.bops > 0) return std::make_unique<OperationsBudget>(space, plans, requested);
  if (requested.target.accumulator_bits > 0) return std::make_unique<RegisterBudget>(space, plans, requested);
  return std::make_unique<BitsBudget>(space, plans.at(0), requested.target.bits_per_weight);
}

}  // namespace crumb::ptq
