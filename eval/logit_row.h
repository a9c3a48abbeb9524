// A row of logits as a distribution.
#pragma once

#include <cstddef>
#include <span>

namespace crumb::eval {

/// Logits as what log softmax takes off: value(i) - log_sum.
struct LogitRow {
  std::span<const float> logits;
  double log_sum = 0;
  std::size_t largest = 0;  ///< the first of equal ones

  /// Throws Error where one is NaN. Precondition: there is one.
  explicit LogitRow(std::span<const float> of);

  double log_probability(std::size_t id) const { return logits[id] - log_sum; }
};

/// The sum of p log(p / q) in nats, p being what `from` says.
double divergence(const LogitRow& from, const LogitRow& to);

}  // namespace crumb::eval
