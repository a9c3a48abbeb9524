// Walks the values of a block, in memory or as a stream.
#pragma once

#include <cstdint>

#include "base/files/interrupt.h"
#include "quant/search/scale_search.h"

namespace crumb {

/// Calls visit(pointer, count, index) for the contiguous runs of a block.
template <class Visit>
void for_runs(const BlockValues& block, const Visit& visit) {
  if (block.stream) {
    block.stream->rewind();
    uint64_t index = block.index;
    for (auto x = block.stream->next(block.slice); !x.empty(); x = block.stream->next(block.slice)) {
      check_interrupt();
      visit(x.data(), x.size(), index);
      index += x.size();
    }
    return;
  }
  if (block.cols == block.stride) return visit(block.data, block.rows * block.cols, block.index);
  for (uint64_t r = 0; r < block.rows; ++r) {
    visit(block.data + r * block.stride, block.cols, block.index + r * block.stride);
  }
}

inline constexpr uint64_t kPiece = uint64_t{1} << 16;  ///< values that are encoded, or counted, at a time

/// Calls visit for the pieces, at most kPiece long, in which a run is encoded.
template <class Visit>
void for_pieces(const float* x, uint64_t n, uint64_t index, const Visit& visit) {
  for (uint64_t done = 0; done < n; done += kPiece) visit(x + done, std::min(kPiece, n - done), index + done);
}

}  // namespace crumb
