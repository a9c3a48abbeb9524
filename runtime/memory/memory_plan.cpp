#include "runtime/memory/memory_plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace crumb::runtime {
namespace {

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

/// Places the values one after the other in the order given.
MemoryPlan placed(std::span<const Lifetime> values, const std::vector<std::size_t>& order) {
  MemoryPlan plan{.offsets = std::vector<std::size_t>(values.size()), .bytes = 0};
  std::vector<std::size_t> by_offset;  // of the values with an offset
  by_offset.reserve(values.size());
  for (const std::size_t i : order) {
    const std::size_t bytes = rounded_up(values[i].bytes);
    constexpr std::size_t kNone = ~std::size_t{0};
    std::size_t end = 0, best = kNone, best_gap = kNone;
    for (const std::size_t other : by_offset) {
      if (!values[i].meets(values[other])) continue;
      const std::size_t begin = plan.offsets[other];
      if (begin > end && begin - end >= bytes && begin - end < best_gap) {
        best = end;
        best_gap = begin - end;
      }
      end = std::max(end, begin + rounded_up(values[other].bytes));
    }
    plan.offsets[i] = best == kNone ? end : best;
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
    const auto at = std::ranges::upper_bound(by_offset, plan.offsets[i], {},
                                             [&](std::size_t other) { return plan.offsets[other]; });
    by_offset.insert(at, i);
  }
  return plan;
}

}  // namespace

std::size_t most_bytes_at_a_time(std::span<const Lifetime> values) {
  std::map<std::size_t, std::size_t> born, gone;  // bytes, by step
  for (const Lifetime& value : values) {
    born[value.first] += rounded_up(value.bytes);
    gone[value.last + 1] += rounded_up(value.bytes);
  }
  std::size_t now = 0, most = 0;
  auto next = gone.begin();
  for (const auto& [step, bytes] : born) {
    for (; next != gone.end() && next->first <= step; ++next) now -= next->second;
    now += bytes;
    most = std::max(most, now);
  }
  return most;
}

MemoryPlan plan_memory(std::span<const Lifetime> values) {
  const std::size_t least = most_bytes_at_a_time(values);
  MemoryPlan best;
  const auto try_order = [&](const auto& key_of) {
    std::vector<std::pair<std::size_t, std::size_t>> keys;  // the smallest key first; of equal ones the first
    for (std::size_t i = 0; i < values.size(); ++i) keys.emplace_back(key_of(values[i]), i);
    std::ranges::sort(keys);
    std::vector<std::size_t> order;
    for (const auto& [key, i] : keys) order.push_back(i);
    MemoryPlan plan = placed(values, order);
    if (best.offsets.empty() || plan.bytes < best.bytes) best = std::move(plan);
    return best.bytes == least;
  };
  if (try_order([](const Lifetime& value) { return value.first; })) return best;
  if (try_order([](const Lifetime& value) { return ~value.bytes; })) return best;
  try_order([](const Lifetime& value) { return ~(value.last - value.first); });
  return best;
}

}  // namespace crumb::runtime
