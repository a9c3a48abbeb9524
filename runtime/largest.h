// Which of many numbers is the largest, as a greedy choice asks of logits.
#pragma once

#include <cstddef>
#include <span>

namespace crumb::runtime {

struct Largest {
  std::size_t index = 0;  ///< the lowest of equal ones; 0 where there are no numbers
  bool has_nan = false;   ///< then the index means nothing
};

/// Looks at sixteen numbers side by side, and for the index at the block that has the largest.
Largest largest_of(std::span<const float> numbers);

}  // namespace crumb::runtime
