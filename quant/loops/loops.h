// The inner loops of quantization over a run of values that share one scale and zero point. One body,
// compiled for several instruction sets and chosen at run time; every variant gives the same bits as the
// scalar reference (encode_ref, decode_ref) because each step is one correctly rounded float32 operation.
//
// Half-even rounding of every grid is vectorised; other rounding modes run through the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/code_grid.h"

namespace crumb {

/// The bits of +inf; those of NaN, without the sign, are greater.
inline constexpr uint32_t kInfinityBits = 0x7F800000;

struct Loops {
  std::string_view name;  ///< "baseline", "avx2", "avx512"

  /// The largest |x| as float bits; kInfinityBits and above when there is an inf or NaN. 0 for n = 0.
  uint32_t (*absmax_bits)(const float* x, size_t n);

  /// codes[i] = pattern of x[i] under scale s > 0 and zero point z; `index` is the tensor index of x[0].
  void (*encode)(const CodeGrid& grid, const float* x, size_t n, float s, float z, uint64_t index,
                 uint8_t* codes);

  /// out[i] = (value(codes[i]) - z) * s.
  void (*decode)(const CodeGrid& grid, const uint8_t* codes, size_t n, float s, float z, float* out);

  /// The sum of ((x[i] - decode(encode(x[i]))) * unit)^2. The order is fixed, so that every variant and the
  /// reference give the same double: runs of kErrorRun values; within a run lane i % 16 adds up in float32,
  /// the lanes and then the runs add up in double, in order. `unit` is a power of two that keeps the squares
  /// in range.
  double (*squared_error)(const CodeGrid& grid, const float* x, size_t n, float s, float z, float unit,
                          uint64_t index);
};

inline constexpr size_t kErrorLanes = 16;
inline constexpr size_t kErrorRun = 1024;

/// The fastest variant that this processor runs.
const Loops& loops();

/// All variants that this processor runs, the plain one first.
const Loops* const* all_loops(size_t& count);

/// Scalar twin of Loops::squared_error.
double squared_error_ref(const CodeGrid& grid, const float* x, size_t n, float s, float z, float unit,
                         uint64_t index);

}  // namespace crumb
