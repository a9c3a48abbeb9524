// Maxima of floats over windows of a row.
#pragma once

#include <cstddef>
#include <span>

namespace crumb::runtime {

/// Elements of each window: that of output i and tap t is x[offsets[t] + i * stride].
struct RowTaps {
  const float* x;
  std::span<const std::size_t> offsets;
  std::size_t stride;
};

/// to[i], for i < count, is the largest element of window i: larger_of() (convert.h) of -infinity and tap
/// after tap, so that of zeros and of NaN the first counts. Nothing overlaps `to`. By the definition; kept
/// for ever.
void largest_of_taps_ref(const RowTaps& from, std::size_t count, float* to);

/// The fastest way that this processor has.
void largest_of_taps(const RowTaps& from, std::size_t count, float* to);

/// Precondition: may_use(Isa::kAvx2).
void largest_of_taps_avx2(const RowTaps& from, std::size_t count, float* to);
/// Precondition: may_use(Isa::kAvx512).
void largest_of_taps_avx512(const RowTaps& from, std::size_t count, float* to);

}  // namespace crumb::runtime
