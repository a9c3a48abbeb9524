// Counts NaN and infinite values that arrive at a quantizer of activations, which has no codes for them. The
// engine that runs the graph counts; the caller of the run reports.
//
// Where integers follow, a quantizer of integers gives NaN its least code and infinities its end codes; where
// its values stay floats, NaN stays NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "graph/graph.h"

namespace crumb::graph {

/// Whether all values are finite.
inline bool all_finite(std::span<const float> x) {
  constexpr std::int32_t kMagnitude = 0x7fffffff, kLargest = 0x7f7fffff;
  std::int32_t beyond = 0;
  for (const float value : x) {
    std::int32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    beyond |= (bits & kMagnitude) > kLargest ? 1 : 0;
  }
  return beyond == 0;
}

/// Returns how many values are NaN or infinite; all_finite() is the faster first check.
inline std::uint64_t count_not_finite(std::span<const float> x) {
  return static_cast<std::uint64_t>(std::ranges::count_if(x, [](float v) { return !std::isfinite(v); }));
}

/// The count of one quantizer.
struct NotFinite {
  std::string node;         ///< its name, or that of its value if it has none
  std::uint64_t count = 0;  ///< values, over all runs
};

/// "3 values that are NaN or infinite came to the quantizer 'q': it has no codes for them"
inline std::string text_of(const NotFinite& found) {
  return count_text(found.count, "value") + (found.count == 1 ? " that is" : " that are") +
         " NaN or infinite came to the quantizer " + quote_text(found.node) +
         ", which has no code for such: where integers follow, NaN counts as the least code and an infinity "
         "as one at "
         "the end";
}

/// Counts over runs. Thread-safe.
class NotFiniteWatch {
 public:
  NotFiniteWatch() = default;
  /// strict: the run throws Error at the first such value.
  explicit NotFiniteWatch(bool strict) : strict_(strict) {}

  void note(const Node& quantizer, std::uint64_t count) {
    if (count == 0) return;
    NotFinite found{quantizer.name.empty() ? quantizer.outputs.at(0) : quantizer.name, count};
    if (strict_) throw Error(text_of(found));
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = counts_.try_emplace(found.node, Entry{counts_.size(), 0});
    entry->second.count += count;
  }

  /// Returns the count of the first quantizer that such values reached: in the order of the graph's nodes if
  /// a graph is given, else in time. Those behind it are left out, because what it lets through reaches them
  /// too.
  std::optional<NotFinite> first(const Graph* graph = nullptr) const {
    const std::lock_guard lock(mutex_);
    if (graph) {
      for (const Node& node : graph->nodes) {
        const auto found =
            counts_.find(node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name);
        if (found != counts_.end()) return NotFinite{found->first, found->second.count};
      }
    }
    const auto least =
        std::ranges::min_element(counts_, {}, [](const auto& entry) { return entry.second.place; });
    if (least == counts_.end()) return std::nullopt;
    return NotFinite{least->first, least->second.count};
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    counts_.clear();
  }

  /// The watch that this thread's runs report to; null: none.
  static NotFiniteWatch*& current() {
    thread_local NotFiniteWatch* watch = nullptr;
    return watch;
  }

 private:
  struct Entry {
    std::size_t place;
    std::uint64_t count;
  };

  bool strict_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> counts_;
};

/// The watch of this thread's runs while the scope lives.
class NotFiniteScope {
 public:
  explicit NotFiniteScope(NotFiniteWatch* watch) : before_(std::exchange(NotFiniteWatch::current(), watch)) {}
  NotFiniteScope(const NotFiniteScope&) = delete;
  NotFiniteScope& operator=(const NotFiniteScope&) = delete;
  ~NotFiniteScope() { NotFiniteWatch::current() = before_; }

 private:
  NotFiniteWatch* before_;
};

/// Called by an engine's quantizer kernel, on the thread of its run.
inline void note_not_finite(const Node& quantizer, std::uint64_t count) {
  if (NotFiniteWatch* const watch = NotFiniteWatch::current(); watch && count > 0)
    watch->note(quantizer, count);
}

}  // namespace crumb::graph
