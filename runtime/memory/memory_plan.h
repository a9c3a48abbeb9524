// Offsets in one block of memory for values of known sizes and lifetimes: values that never live at the same
// time may share bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace crumb::runtime {

/// A value that lives from one step to another, both included. Precondition: first <= last.
struct Lifetime {
  std::size_t bytes = 0;
  std::size_t first = 0, last = 0;

  bool meets(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

/// Offsets are multiples of it, in a block that is aligned to it.
inline constexpr std::size_t kMemoryAlignment = 64;

struct MemoryPlan {
  std::vector<std::size_t> offsets;  ///< one for each value
  std::size_t bytes = 0;             ///< of the block
};

/// The smallest block of three greedy orders (largest value first, the order of Pisarchyk and Lee, "Efficient
/// memory management for deep neural net inference", 2020, section 5; longest lifetime first; in the order of
/// birth), each value in the smallest gap that takes it. The same values give the same plan. Time grows with
/// the square of the number of values.
MemoryPlan plan_memory(std::span<const Lifetime> values);

/// The most bytes that live in one step, each value's rounded up to the alignment: no plan takes less.
std::size_t most_bytes_at_a_time(std::span<const Lifetime> values);

}  // namespace crumb::runtime
