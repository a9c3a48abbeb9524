#include "ptq/matrices/l1_ball.h"

#include <algorithm>
#include <functional>

namespace crumb::ptq {

double l1_threshold(std::vector<double> magnitudes, double radius) {
  double sum = 0;
  for (const double x : magnitudes) sum += x;
  if (sum <= radius) return 0;
  std::ranges::sort(magnitudes, std::greater<>());
  double before = 0, threshold = 0;
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    before += magnitudes[i];
    const double here = (before - radius) / static_cast<double>(i + 1);
    if (magnitudes[i] <= here) break;
    threshold = here;
  }
  return threshold;
}

}  // namespace crumb::ptq
