#include "tasks/language/steps/step_parts.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace crumb::tasks {

std::vector<std::vector<std::int64_t>> parts_of_step(const std::vector<std::int64_t>& samples,
                                                     const std::vector<std::int64_t>& lengths,
                                                     std::int64_t most, std::int64_t part_cost) {
  const std::size_t count = samples.size();
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return lengths[i]; });

  std::vector<std::int64_t> least(count + 1,
                                  std::numeric_limits<std::int64_t>::max());  // cost of all from there on
  std::vector<std::size_t> end_of(count);                                     // end of that part
  least[count] = 0;
  for (std::size_t begin = count; begin-- > 0;) {
    const std::size_t last = std::min(count, begin + static_cast<std::size_t>(most));
    for (std::size_t end = begin + 1; end <= last; ++end) {
      const auto size = static_cast<std::int64_t>(end - begin);
      const std::int64_t cost = size * lengths[order[end - 1]] + part_cost + least[end];
      if (cost > least[begin]) continue;
      least[begin] = cost;
      end_of[begin] = end;
    }
  }

  std::vector<std::vector<std::int64_t>> parts;
  for (std::size_t begin = 0; begin < count; begin = end_of[begin]) {
    parts.emplace_back();
    for (std::size_t i = begin; i < end_of[begin]; ++i) parts.back().push_back(samples[order[i]]);
  }
  return parts;
}

}  // namespace crumb::tasks
