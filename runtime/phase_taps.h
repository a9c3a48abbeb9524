// The taps of a transposed convolution, phase by phase: phase r has the outputs stride * i + r, which meet
// those taps whose distance from r is a multiple of the stride (ops/transposed.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace crumb::runtime {

/// Steps to the next index below `sizes`, row by row; false behind the last one.
inline bool next_index(std::vector<std::int64_t>& index, const std::vector<std::int64_t>& sizes) {
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (++index[i] < sizes[i]) return true;
    index[i] = 0;
  }
  return false;
}

struct PhaseTap {
  std::size_t tap = 0;     ///< of the transposed convolution's kernel, row by row
  std::size_t of_all = 0;  ///< of `reach`, the kernel of a convolution that has the taps of all phases
};

/// Those that a phase meets, in the order of taps. Each argument has a number for each axis; all but the
/// residues are above 0.
inline std::vector<PhaseTap> phase_taps(const std::vector<std::int64_t>& kernel,
                                        const std::vector<std::int64_t>& strides,
                                        const std::vector<std::int64_t>& dilations,
                                        const std::vector<std::int64_t>& reach,
                                        const std::vector<std::int64_t>& residues) {
  std::vector<PhaseTap> met;
  std::vector<std::int64_t> k(kernel.size(), 0);
  std::size_t tap = 0;
  do {
    std::int64_t of_all = 0;
    bool meets = true;
    for (std::size_t i = 0; i < kernel.size() && meets; ++i) {
      const std::int64_t back = k[i] * dilations[i] - residues[i];
      meets = back % strides[i] == 0;
      // A tap that is further back meets an element that comes earlier.
      of_all = of_all * reach[i] + reach[i] - 1 - back / strides[i];
    }
    if (meets) met.push_back({tap, static_cast<std::size_t>(of_all)});
    ++tap;
  } while (next_index(k, kernel));
  return met;
}

}  // namespace crumb::runtime
