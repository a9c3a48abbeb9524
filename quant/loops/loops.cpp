#include "quant/loops/loops.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "formats/number/minifloat.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors never cross a function that is not inlined

namespace crumb {
namespace {

// clang-format off
namespace baseline {
#include "quant/loops/body.inc"
}  // namespace baseline

#pragma GCC push_options
#pragma GCC target("avx2")
namespace avx2 {
#include "quant/loops/body.inc"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
namespace avx512 {
#include "quant/loops/body.inc"
}  // namespace avx512
#pragma GCC pop_options
// clang-format on

constexpr Loops kBaseline = {"baseline", baseline::absmax_bits, baseline::encode, baseline::decode,
                             baseline::squared_error};
constexpr Loops kAvx2 = {"avx2", avx2::absmax_bits, avx2::encode, avx2::decode, avx2::squared_error};
constexpr Loops kAvx512 = {"avx512", avx512::absmax_bits, avx512::encode, avx512::decode,
                           avx512::squared_error};

struct Supported {
  const Loops* list[3];
  size_t count = 0;
  Supported() {
    list[count++] = &kBaseline;
    if (__builtin_cpu_supports("avx2")) list[count++] = &kAvx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      list[count++] = &kAvx512;
    }
  }
};

const Supported& supported() {
  static const Supported instance;
  return instance;
}

}  // namespace

const Loops& loops() { return *supported().list[supported().count - 1]; }

const Loops* const* all_loops(size_t& count) {
  count = supported().count;
  return supported().list;
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
    double run = 0;
    for (const float lane : lanes) run += static_cast<double>(lane);
    total += run;
  }
  return total;
}

}  // namespace crumb
