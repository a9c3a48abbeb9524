#include "runtime/exact/side_by_side.h"

#include <algorithm>

#include "base/processor.h"

namespace crumb::runtime::exact {

void side_by_side_ref(const std::uint32_t* from, std::size_t stride, std::size_t rows, std::size_t count,
                      std::uint32_t* out) {
  for (std::size_t r = 0; r < 16; ++r)
    for (std::size_t i = 0; i < count; ++i) out[16 * i + r] = from[std::min(r, rows - 1) * stride + i];
}

void side_by_side(const std::uint32_t* from, std::size_t stride, std::size_t rows, std::size_t count,
                  std::uint32_t* out) {
  if (may_use(Isa::kAvx2)) return side_by_side_avx2(from, stride, rows, count, out);
  side_by_side_ref(from, stride, rows, count, out);
}

}  // namespace crumb::runtime::exact
