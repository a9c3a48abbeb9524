// The points of which none other is better in one way and not worse in the other.
#pragma once

#include <span>
#include <vector>

namespace crumb::eval {

struct CostAndScore {
  double cost = 0;   ///< less is better
  double score = 0;  ///< more is better
};

/// Whether each is on the front; of equal points all are. One whose cost or score is NaN is not, and keeps
/// none away.
std::vector<bool> pareto_front(std::span<const CostAndScore> points);

}  // namespace crumb::eval
