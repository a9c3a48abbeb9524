// Onto the l1 ball, and away from it.
#pragma once

#include <vector>

namespace crumb::ptq {

/// The threshold t by which sign(x) max(|x| - t, 0) is the nearest to x that has an l1 norm of `radius`; 0 where x lies inside of
/// the ball (Duchi et al. 2008). What that takes away is x clamped to +-t.
double l1_threshold(std::vector<double> magnitudes, double radius);

}  // namespace crumb::ptq
