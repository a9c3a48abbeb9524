#include "runtime/exact/functions.h"

#include <bit>
#include <cmath>
#include <iterator>

namespace crumb::runtime::exact {
namespace {

using Map = void (*)(const float* x, float* y, size_t n);

#define CRUMB_INLINE [[gnu::always_inline]] static inline
// clang-format off
namespace baseline {
#include "runtime/exact/functions.inc"
}  // namespace baseline

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace avx2 {
#include "runtime/exact/functions.inc"
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
#endif
namespace avx512 {
#include "runtime/exact/functions.inc"
}  // namespace avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
namespace avx2 = baseline;
namespace avx512 = baseline;
#endif
// clang-format on

static_assert(std::size(baseline::kMaps) == std::size(kFunctions));

}  // namespace

void apply_with(Isa isa, Function function, std::span<const float> x, std::span<float> y) {
  const auto at = static_cast<std::size_t>(function);
  const Map map = isa == Isa::kAvx512 ? avx512::kMaps[at]
                  : isa == Isa::kAvx2 ? avx2::kMaps[at]
                                      : baseline::kMaps[at];
  map(x.data(), y.data(), y.size());
}

void apply(Function function, std::span<const float> x, std::span<float> y) {
  static const Isa best = may_use(Isa::kAvx512) ? Isa::kAvx512
                          : may_use(Isa::kAvx2) ? Isa::kAvx2
                                                : Isa::kPortable;
  apply_with(best, function, x, y);
}

float exp_of(float x) { return baseline::exp_one(x); }
float tanh_of(float x) { return baseline::tanh_one(x); }

}  // namespace crumb::runtime::exact
