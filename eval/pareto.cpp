#include "eval/pareto.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace crumb::eval {

std::vector<bool> pareto_front(std::span<const CostAndScore> points) {
  std::vector<bool> is_on(points.size(), false);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!std::isnan(points[i].cost) && !std::isnan(points[i].score)) order.push_back(i);
  }
  std::ranges::sort(order, [&](std::size_t i, std::size_t j) { return points[i].cost < points[j].cost; });
  bool is_first = true;
  double best = 0;  // of all that cost less
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double here = -std::numeric_limits<double>::infinity();
    for (; end < order.size() && points[order[end]].cost == points[order[begin]].cost; ++end)
      here = std::max(here, points[order[end]].score);
    if (is_first || here > best) {
      for (std::size_t i = begin; i < end; ++i) is_on[order[i]] = points[order[i]].score == here;
      best = here;
      is_first = false;
    }
    begin = end;
  }
  return is_on;
}

}  // namespace crumb::eval
