// Values that are NaN or infinite and come to a quantizer of activations, which has no code for them: they are counted, by
// whichever engine runs the graph, and whoever runs it says so.
//
// A quantizer of integers takes NaN as its least code and infinities as those at its ends wherever integers follow; where its
// values stay floats, NaN stays NaN.
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

/// Whether there is neither NaN nor infinity among them.
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

/// Those that are, for who found that there are some.
inline std::uint64_t count_not_finite(std::span<const float> x) {
  return static_cast<std::uint64_t>(std::ranges::count_if(x, [](float v) { return !std::isfinite(v); }));
}

/// At one quantizer.
struct NotFinite {
  std::string node;         ///< its name, or that of its value where it has none
  std::uint64_t count = 0;  ///< values, of all runs
};

/// "3 values that are NaN or infinite came to the quantizer 'q': it has no codes for them"
inline std::string text_of(const NotFinite& found) {
  return count_text(found.count, "value") + (found.count == 1 ? " that is" : " that are") +
         " NaN or infinite came to the quantizer " + quote_text(found.node) +
         ", which has no code for such: where integers follow, NaN counts as the least code and an infinity "
         "as one at "
         "the end";
}

/// Collects them over runs. Thread-safe.
class NotFiniteWatch {
 public:
  NotFiniteWatch() = default;
  /// strict: the first ones are an Error of the run.
  explicit NotFiniteWatch(bool strict) : strict_(strict) {}

  void note(const Node& quantizer, std::uint64_t count) {
    if (count == 0) return;
    NotFinite found{quantizer.name.empty() ? quantizer.outputs.at(0) : quantizer.name, count};
    if (strict_) throw Error(text_of(found));
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = counts_.try_emplace(found.node, Entry{counts_.size(), 0});
    entry->second.count += count;
  }

  /// Of the first quantizer that some came to, by the order of the graph's nodes where it is given, else by time. What it
  /// lets through comes to those behind it, so that they are not counted.
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

  /// Who is told by this thread's runs; null: nobody.
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

/// For an engine's kernel, on the thread of its run.
inline void note_not_finite(const Node& quantizer, std::uint64_t count) {
  if (NotFiniteWatch* const watch = NotFiniteWatch::current(); watch && count > 0)
    watch->note(quantizer, count);
}

}  // namespace crumb::graph
