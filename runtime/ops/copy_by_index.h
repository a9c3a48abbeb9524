// Copies whose elements are found axis by axis: padding, and resizing to the nearest element.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/operator.h"

namespace crumb::runtime {

/// An index that takes no element.
inline constexpr std::int64_t kNoElement = -1;

/// How the last axis of a copy is read, from what its indices take.
class CopiedLine {
 public:
  explicit CopiedLine(const Ints& offsets) : offsets_(offsets) {
    const auto size = static_cast<std::int64_t>(offsets.size());
    while (before_ < size && at(before_) == kNoElement) ++before_;
    end_ = before_;
    while (end_ < size && at(end_) != kNoElement && at(end_) == at(before_) + end_ - before_) ++end_;
    is_run_ =
        std::all_of(offsets.begin() + end_, offsets.end(), [](std::int64_t o) { return o == kNoElement; });
  }

  template <class T>
  void copy(const T* from, T fill, T* to) const {
    if (is_run_) {
      to = std::fill_n(to, before_, fill);
      if (end_ > before_) to = std::copy_n(from + at(before_), end_ - before_, to);
      std::fill_n(to, static_cast<std::int64_t>(offsets_.size()) - end_, fill);
      return;
    }
    for (const std::int64_t offset : offsets_) *to++ = offset == kNoElement ? fill : from[offset];
  }

 private:
  std::int64_t at(std::int64_t i) const { return offsets_[static_cast<std::size_t>(i)]; }

  const Ints& offsets_;
  std::int64_t before_ = 0, end_ = 0;  // the run of neighbours
  bool is_run_ = false;                // and nothing else
};

/// Writes an array row by row: index i of axis a adds offsets[a][i] to the offset in `from`. The element is
/// `fill` where one of these is kNoElement.
template <class T>
void copy_by_index(const T* from, const std::vector<Ints>& offsets, T fill, std::span<T> to) {
  if (to.empty()) return;
  if (offsets.empty()) {
    to[0] = from[0];
    return;
  }
  std::size_t last = offsets.size() - 1;  // of the axes; one element of its own makes no axis
  while (last > 0 && offsets[last].size() == 1 && offsets[last][0] == 0) --last;
  const CopiedLine line(offsets[last]);
  const std::size_t width = offsets[last].size();
  std::vector<std::size_t> index(last, 0);
  std::int64_t previous = kNoElement;
  for (T* row = to.data(); row < to.data() + to.size(); row += width) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < last && at != kNoElement; ++i) {
      const std::int64_t step = offsets[i][index[i]];
      at = step == kNoElement ? kNoElement : at + step;
    }
    if (at == kNoElement) {
      std::fill_n(row, width, fill);
    } else if (at == previous) {  // the row before is the same
      std::copy_n(row - width, width, row);
    } else {
      line.copy(from + at, fill, row);
    }
    previous = at;
    for (std::size_t i = last; i-- > 0;) {
      if (++index[i] < offsets[i].size()) break;
      index[i] = 0;
    }
  }
}

}  // namespace crumb::runtime
