// The inner loops of quantization over a run of values that share one scale and zero point. One body is
// compiled for several instruction sets and chosen at run time. Every variant gives the same bits as the
// scalar reference (encode_ref, decode_ref) because each step is one correctly rounded float32 operation.
//
// Half-even rounding of every grid is vectorised; other rounding modes run through the reference.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "formats/number/scale_format.h"
#include "quant/code_grid.h"

namespace crumb {

/// The bits of +inf; the bits of NaN, without the sign, are greater.
inline constexpr uint32_t kInfinityBits = 0x7F800000;

inline constexpr size_t kErrorLanes = 16;
inline constexpr size_t kErrorRun = 1024;

/// The sums of Distortion (quant/distortion.h), in lanes: value i goes to lane i % 16.
struct DistortionLanes {
  using Lanes = std::array<double, kErrorLanes>;
  Lanes signal{}, square{}, absolute{}, most{};
  uint64_t exact = 0;
};

/// The band in which x gets its gradient: lo <= u <= hi, where u is x / s and what the grid adds to it before
/// rounding.
struct FakeBand {
  float lo = 0, hi = 0;
};

/// The sums that a run adds to the gradients of its scale and zero point (libtorch/scaled_quantizer.h).
struct FakeSums {
  /// Of grad (v(q) - z - x / s) within the band; of grad (v(q) - z) outside it and for binary.
  double scale = 0;
  double outside = 0;  ///< of grad outside the band
};

/// The sums of a row's codes above 0 and of those below.
struct SignedSums {
  int64_t positive = 0, negative = 0;
};

/// Sums over a row x less its mean, its values y and its gradient: sum(grad (x - mean)), sum(grad y),
/// sum(grad), and by how many the x - mean that are not negative outnumber those that are.
struct RowSums {
  double along = 0, values = 0, grad = 0, sign = 0;
};

/// How the scales of blocks follow from their largest magnitudes where there is no zero point
/// (quant/search/scale_search.h): the ideal is most / largest / tensor_scale, or 2^(floor(log2 most) - emax).
/// It is rounded to the format; what multiplies codes is the stored scale * multiplier * tensor_scale.
struct ScaleRule {
  ScaleFormat format = ScaleFormat::kF32;
  bool power_of_two = false;
  int emax = 0;  ///< with power_of_two
  float largest = 1;
  float tensor_scale = 1;
  float multiplier = 1;
  /// Loops serve ideals from `least` to `greatest`, which the format holds without saturating, as normal
  /// numbers (e4m3: subnormal ones, too).
  float least = 0, greatest = 0;
};

struct Loops {
  std::string_view name;  ///< "baseline", "avx2", "avx512"

  /// The largest |x| as float bits; kInfinityBits and above when there is an inf or NaN. 0 for n = 0.
  uint32_t (*absmax_bits)(const float* x, size_t n);

  /// Lowers *low <= 0 to the least of n finite values, raises *high >= 0 to the greatest. Neither is -0, and
  /// neither becomes -0.
  void (*widen_range)(const float* x, size_t n, float* low, float* high);

  /// codes[i] = pattern of x[i] under scale s > 0 and zero point z; `index` is the tensor index of x[0].
  void (*encode)(const CodeGrid& grid, const float* x, size_t n, float s, float z, uint64_t index,
                 uint8_t* codes);

  /// bits[b] = absmax_bits of block b: `block` > 0 values each, the last one those that are left of n.
  void (*block_absmax)(const float* x, size_t n, size_t block, uint32_t* bits);

  /// The stored pattern and the effective scale of n blocks whose largest magnitudes are given as bits.
  /// scales[i] = -1 where the ideal is not between the rule's bounds: patterns[i] is then of no use.
  void (*block_scales)(const ScaleRule& rule, const uint32_t* bits, size_t n, uint32_t* patterns,
                       float* scales);

  /// The same for the ideals `ideal` times n factors, n a multiple of 16. Returns whether all are served.
  bool (*scaled_ideals)(const ScaleRule& rule, float ideal, const float* factors, size_t n,
                        uint32_t* patterns, float* scales);

  /// Calls encode with zero point 0 for each block of `block` values and its scale; a block whose scale is
  /// not above 0 gets codes of `zero`.
  void (*encode_blocks)(const CodeGrid& grid, const float* x, size_t n, size_t block, const float* scales,
                        uint64_t index, uint8_t zero, uint8_t* codes);

  /// out[i] = (value(codes[i]) - z) * s.
  void (*decode)(const CodeGrid& grid, const uint8_t* codes, size_t n, float s, float z, float* out);

  /// The sum of ((x[i] - decode(encode(x[i]))) * unit)^2. The order is fixed, so that every variant and the
  /// reference give the same double: within a run of kErrorRun values lane i % 16 adds up in float32, the
  /// lanes are folded (fold_lanes), the runs add up in double, in order. `unit` is a power of two that keeps
  /// the squares in range.
  double (*squared_error)(const CodeGrid& grid, const float* x, size_t n, float s, float z, float unit,
                          uint64_t index);

  /// Adds to errors[k] what squared_error gives for s[k] > 0 and z[k], k < count: faster than one by one.
  void (*squared_errors)(const CodeGrid& grid, const float* x, size_t n, const float* s, const float* z,
                         size_t count, float unit, uint64_t index, double* errors);

  /// The squared error of one value under each of n scales s[k] > 0 and zero points, n a multiple of 16:
  /// what squared_error(x, 1) gives, or 0 where the grid or rounding has no vector form. So no block that
  /// holds x has a smaller error.
  void (*value_errors)(const CodeGrid& grid, float x, const float* s, const float* z, size_t n, float unit,
                       float* errors);

  /// Writes for each of the 16 lanes the value of largest magnitude among n <= kErrorRun values, the first of
  /// several; 0 where a lane has none. squared_error of these min(n, 16) is at most that of all: rounding
  /// never reverses an order, and each value stays in its lane.
  void (*lane_extremes)(const float* x, size_t n, float* extremes);

  /// Adds n values, a multiple of kErrorLanes, the first of which belongs to lane 0. Returns false and adds
  /// nothing where there is an inf or NaN among them or in the sums: then add_distortion_ref does it.
  bool (*distortion)(const float* reference, const float* value, size_t n, DistortionLanes& lanes);

  /// out[i] = what decode(encode(x[i])) gives, s > 0; out may be x. Returns absmax_bits(x, n). Precondition:
  /// has_fused_loops(grid).
  uint32_t (*fake)(const CodeGrid& grid, const float* x, size_t n, float s, float z, float* out);

  /// For n <= kErrorRun values: dx[i] = grad[i] within the band, else 0 (dx may be grad; null: not computed).
  /// Returns the sums, in 16 float32 lanes, then folded. Precondition: has_fused_loops(grid).
  FakeSums (*fake_gradients)(const CodeGrid& grid, const FakeBand& band, const float* x, const float* grad,
                             size_t n, float s, float z, float* dx);

  // Rows of weights under A2Q (qat/weights/a2q.h), in double; the order of the sums is fixed.
  double (*row_sum)(const float* x, size_t n);
  double (*row_norm)(const float* x, size_t n, double mean);  ///< sum |x - mean|

  /// out[i] = q scale, q = trunc((x[i] - mean) / pre clamped to [-most, most]). most < 2^15, n < 2^16.
  SignedSums (*row_codes)(const float* x, size_t n, double mean, double pre, int most, float scale,
                          float* out);

  RowSums (*row_sums)(const float* x, const float* grad, const float* y, size_t n, double mean);

  /// out[i] = of_grad grad[i] - sign(x[i] - mean) of_sign - less, sign(0) = 1.
  void (*row_gradients)(const float* x, const float* grad, size_t n, double mean, double of_grad,
                        double of_sign, double less, float* out);

  /// The step of HQQ (quant/search/scale_search.h) for n values whose codes stand for values[i] s:
  ///   sizes[i] = |x[i] - values[i] s|, targets[i] = x[i] - shrink(x[i] - values[i] s),
  ///   ratios[i] = targets[i] / values[i],
  /// where shrink() takes sizes[i]^exponent by any powf whose error is less than a unit in the last place:
  /// targets[i] is NaN where such may differ.
  void (*hqo_step)(const float* x, const float* values, size_t n, float s, float exponent, float beta,
                   float* sizes, float* targets, float* ratios);
};

/// Whether `fake` and `fake_gradients` support the grid: half-even rounding, codebooks of at most 16 values.
bool has_fused_loops(const CodeGrid& grid);

/// The fastest variant that this processor runs.
const Loops& loops();

/// loops().decode, as a function of its own: a library that only decodes then links no other loop.
using DecodeLoop = decltype(Loops::decode);
DecodeLoop decode_loop();

/// All variants that this processor runs, the plain one first.
std::span<const Loops* const> all_loops();

/// Adds up the lanes: lane k and k + 8, then k and k + 4, k + 2, k + 1.
double fold_lanes(std::array<double, kErrorLanes> lanes);

/// Scalar twin of Loops::squared_error.
double squared_error_ref(const CodeGrid& grid, const float* x, size_t n, float s, float z, float unit,
                         uint64_t index);

}  // namespace crumb
