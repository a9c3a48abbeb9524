#include "runtime/ops/larger_floats.h"

#include <limits>

#include "base/processor.h"
#include "runtime/ops/convert.h"

namespace crumb::runtime {

void largest_of_taps_ref(const RowTaps& from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) {
    float most = -std::numeric_limits<float>::infinity();
    for (const std::size_t offset : from.offsets) most = larger_of(most, from.x[offset + i * from.stride]);
    to[i] = most;
  }
}

void largest_of_taps(const RowTaps& from, std::size_t count, float* to) {
  static const auto kernel = may_use(Isa::kAvx512) ? largest_of_taps_avx512
                             : may_use(Isa::kAvx2) ? largest_of_taps_avx2
                                                   : largest_of_taps_ref;
  kernel(from, count, to);
}

}  // namespace crumb::runtime
