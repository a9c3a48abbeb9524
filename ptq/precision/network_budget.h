// What a target allows a network's formats: costs of options in whole units, and which options are
// impossible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/quantize/plan.h"
#include "ptq/precision/format_counts.h"
#include "ptq/precision/format_space.h"
#include "quant/recipe/target.h"

namespace crumb::ptq {

struct BudgetUse {
  double amount = 0;  ///< of the target, in its unit
  std::vector<std::string>
      without_register;  ///< for register targets: nodes that sum floats and are no layer to choose for
};

class NetworkBudget {
 public:
  NetworkBudget() = default;
  NetworkBudget(const NetworkBudget&) = delete;
  NetworkBudget& operator=(const NetworkBudget&) = delete;
  virtual ~NetworkBudget() = default;

  /// Returns a unit's cost with these options, at most (whole units are rounded up); nothing where the two
  /// cannot be combined.
  virtual std::optional<std::uint64_t> cost(std::size_t group, std::size_t unit, std::size_t own,
                                            std::size_t shared) const = 0;
  /// Returns the limit of all units together; nothing where what is not chosen exceeds the target alone.
  virtual std::optional<std::uint64_t> limit() const = 0;
  /// Throws usage Error with the least target that can be met. `least`: what the units cost then; nothing:
  /// see cost().
  [[noreturn]] virtual void refuse(std::optional<std::uint64_t> least) const = 0;
  /// Whether a choice may use less than is counted, so that a choice that was not found may be better.
  virtual bool counts_too_much() const { return false; }
  /// Returns what a calibrated plan of the space uses.
  virtual BudgetUse used(const graph::QuantPlan& plan) const = 0;
};

struct BudgetRequest {
  Target target;       ///< bits per weight, bit operations or accumulators
  InputShapes shapes;  ///< for counting bit operations
  int threads = 0;
};

/// `plans`: one for each format of activations, with everything in it, calibrated. The space must outlive the
/// result. Throws as FormatCounts does.
std::unique_ptr<NetworkBudget> network_budget(const FormatSpace& space,
                                              const std::vector<graph::QuantPlan>& plans,
                                              const BudgetRequest& requested);

}  // namespace crumb::ptq
