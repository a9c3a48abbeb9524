// Projection onto the l1 ball.
#pragma once

#include <vector>

namespace crumb::ptq {

/// Returns the threshold t for which sign(x) max(|x| - t, 0) is the point of l1 norm `radius` nearest to x; 0
/// if x is inside the ball (Duchi et al. 2008). The projection subtracts x clamped to +-t.
double l1_threshold(std::vector<double> magnitudes, double radius);

}  // namespace crumb::ptq
