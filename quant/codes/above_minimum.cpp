#include "quant/codes/above_minimum.h"

#include <algorithm>
#include <array>

#include "quant/loops/loops.h"

namespace crumb {
namespace {

constexpr size_t kShifted = 1024;  // values at a time

}  // namespace

void encode_above_minimum(const CodeGrid& grid, std::span<const float> x, float s, float m, uint64_t index,
                          uint8_t* codes) {
  if (!(s > 0)) {
    std::fill_n(codes, x.size(), grid.zero_pattern(0));
    return;
  }
  std::array<float, kShifted> shifted;
  while (!x.empty()) {
    const size_t n = std::min(x.size(), kShifted);
    for (size_t i = 0; i < n; ++i) shifted[i] = x[i] - m;
    loops().encode(grid, shifted.data(), n, s, 0, index, codes);
    x = x.subspan(n);
    index += n;
    codes += n;
  }
}

}  // namespace crumb
