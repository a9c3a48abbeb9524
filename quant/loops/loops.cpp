#include "quant/loops/loops.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/processor.h"
#include "formats/number/minifloat.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // every function that takes vectors is inlined

namespace crumb {
namespace {

#define CRUMB_INLINE [[gnu::always_inline]] static inline
#define CRUMB_INLINED __attribute__((always_inline))  // for lambdas
// clang-format off
namespace baseline {
constexpr bool kLooksUp = false;
#include "quant/loops/body.inc"
#include "quant/loops/blocks.inc"
#include "quant/loops/error.inc"
#include "quant/loops/distortion.inc"
#include "quant/loops/fake.inc"
#include "quant/loops/a2q.inc"
#include "quant/loops/hqo.inc"
}  // namespace baseline

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
namespace avx2 {
constexpr bool kLooksUp = false;
#include "quant/loops/body.inc"
#include "quant/loops/blocks.inc"
#include "quant/loops/error.inc"
#include "quant/loops/distortion.inc"
#include "quant/loops/fake.inc"
#include "quant/loops/a2q.inc"
#include "quant/loops/hqo.inc"
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
namespace avx512 {
constexpr bool kLooksUp = true;
#include "quant/loops/body.inc"
#include "quant/loops/blocks.inc"
#include "quant/loops/error.inc"
#include "quant/loops/distortion.inc"
#include "quant/loops/fake.inc"
#include "quant/loops/a2q.inc"
#include "quant/loops/hqo.inc"
}  // namespace avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
// clang-format on

#undef CRUMB_INLINE
#undef CRUMB_INLINED

#define CRUMB_LOOPS(isa)                                                                              \
  {                                                                                                   \
#isa, isa::absmax_bits, isa::widen_range, isa::encode, isa::block_absmax, isa::block_scales,      \
        isa::scaled_ideals, isa::encode_blocks, isa::decode, isa::squared_error, isa::squared_errors, \
        isa::value_errors, isa::lane_extremes, isa::distortion, isa::fake, isa::fake_gradients,       \
        isa::row_sum, isa::row_norm, isa::row_codes, isa::row_sums, isa::row_gradients, isa::hqo_step \
  }
constexpr Loops kBaseline = CRUMB_LOOPS(baseline);
#if defined(__x86_64__)
constexpr Loops kAvx2 = CRUMB_LOOPS(avx2);
constexpr Loops kAvx512 = CRUMB_LOOPS(avx512);
#endif
#undef CRUMB_LOOPS

/// Returns the variants that this processor runs, the fastest last.
const std::vector<const Loops*>& supported() {
  static const std::vector<const Loops*> list = [] {
    std::vector<const Loops*> found{&kBaseline};
#if defined(__x86_64__)
    if (may_use(Isa::kAvx2)) found.push_back(&kAvx2);
    if (may_use(Isa::kAvx512)) found.push_back(&kAvx512);
#endif
    return found;
  }();
  return list;
}

}  // namespace

const Loops& loops() { return *supported().back(); }

DecodeLoop decode_loop() {
  static const DecodeLoop fastest = [] {
#if defined(__x86_64__)
    if (may_use(Isa::kAvx512)) return avx512::decode;
    if (may_use(Isa::kAvx2)) return avx2::decode;
#endif
    return baseline::decode;
  }();
  return fastest;
}

std::span<const Loops* const> all_loops() { return supported(); }

bool has_fused_loops(const CodeGrid& grid) {
  const bool many = grid.number->grid == Grid::kCodebook && grid.thresholds.size() >= kErrorLanes;
  return grid.round.rounding == Rounding::kHalfEven && grid.number->grid != Grid::kExponent && !many;
}

double squared_error_ref(const CodeGrid& grid, const float* x, size_t n, float s, float z, float unit,
                         uint64_t index) {
  double total = 0;
  for (size_t start = 0; start < n; start += kErrorRun) {
    float lanes[kErrorLanes] = {};
    for (size_t i = start; i < std::min(n, start + kErrorRun); ++i) {
      const float value = decode_ref(grid, encode_ref(grid, x[i], s, z, index + i), s, z);
      const float error = (x[i] - value) * unit;
      lanes[(i - start) % kErrorLanes] += error * error;
    }
    std::array<double, kErrorLanes> sums;
    std::ranges::copy(lanes, sums.begin());
    total += fold_lanes(sums);
  }
  return total;
}

double fold_lanes(std::array<double, kErrorLanes> lanes) {
  for (size_t half = kErrorLanes / 2; half > 0; half /= 2) {
    for (size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

}  // namespace crumb
