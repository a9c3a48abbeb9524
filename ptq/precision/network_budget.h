// What a target allows a network's formats: costs of options in whole units, and which options are out of the question.
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
      without_register;  ///< of registers: nodes that add up floats, which no layer to choose for does
};

class NetworkBudget {
 public:
  NetworkBudget() = default;
  NetworkBudget(const NetworkBudget&) = delete;
  NetworkBudget& operator=(const NetworkBudget&) = delete;
  virtual ~NetworkBudget() = default;

  /// Of a unit with these options, at most (whole units are rounded up); nothing where the two do not go together.
  virtual std::optional<std::uint64_t> cost(std::size_t group, std::size_t unit, std::size_t own,
                                            std::size_t shared) const = 0;
  /// For all units; nothing where what is not chosen passes the target alone.
  virtual std::optional<std::uint64_t> limit() const = 0;
  /// Throws usage Error that says the least target that can be met, `least` being what the units cost then; nothing: see cost().
  [[noreturn]] virtual void refuse(std::optional<std::uint64_t> least) const = 0;
  /// Whether a choice may take less than is counted of it, so that none that was not found can be said to be worse.
  virtual bool counts_too_much() const { return false; }
  /// Of a calibrated plan of the space.
  virtual BudgetUse used(const graph::QuantPlan& plan) const = 0;
};

struct BudgetWish {
  Target target;       ///< of bits per weight, bit operations or accumulators
  InputShapes shapes;  ///< bit operations are counted for
  int threads = 0;
};

/// `plans`: for each format of activations everything in it, calibrated. The space must outlive it. Throws as FormatCounts does.
std::unique_ptr<NetworkBudget> network_budget(const FormatSpace& space,
                                              const std::vector<graph::QuantPlan>& plans,
                                              const BudgetWish& wish);

}  // namespace crumb::ptq
