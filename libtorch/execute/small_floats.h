// Rounding to the floating types below 16 bits: float8e4m3fn, e4m3fnuz, e5m2, e5m2fnuz, e8m0, float4e2m1.
//
// Their values are carried by float tensors (typed_tensor.h). Rounding goes to the nearest value, ties to the
// even mantissa; with M mantissa bits and exponent bias B the unit in the last place is
// 2^(max(floor(log2 |x|), 1 - B) - M). What lies beyond the largest value once it is rounded:
//
//                   e4m3fn    e4m3fnuz, e5m2fnuz    e5m2     float4e2m1
//   saturate        +-largest +-largest             +-largest  +-largest   (infinity too)
//   no saturation   NaN       NaN                   +-inf      +-largest
//   NaN             NaN       NaN                   NaN        0
//   -0              -0        0                     -0         -0
//
// e8m0 holds 2^-127 to 2^127 and NaN, neither zero nor signs: |x| is rounded; 0 becomes 2^-127, or NaN
// without saturation, as everything else beyond the range does.
#pragma once

#include <ATen/core/Tensor.h>

#include "graph/element_type.h"

namespace crumb::libtorch {

/// How float8e8m0 rounds between two powers of two: towards the larger, the smaller, or the nearer (ties up).
enum class PowerRounding : std::uint8_t { kUp, kDown, kNearest };

struct SmallFloatRounding {
  bool saturate = true;
  PowerRounding power = PowerRounding::kUp;  ///< float8e8m0 only
};

/// Whether values of the type are of the kind that this header is about.
bool is_small_float(graph::ElementType type);

/// Every value rounded to one that the type holds, as a float tensor of the same shape, on the same device.
/// Doubles are rounded once; integers and bool are taken by value. Throws Error where the type is not small
/// or the values are complex.
at::Tensor round_to_small_float(const at::Tensor& values, graph::ElementType type,
                                SmallFloatRounding rounding = {});

/// Floats or doubles rounded to so many mantissa bits below the leading one, ties to even; below
/// 2^least_exponent in steps of 2^(least_exponent - mantissa_bits). Infinities and NaN stay.
at::Tensor round_mantissa(const at::Tensor& values, int mantissa_bits, int least_exponent);

/// The largest finite value of a small type: 448, 240, 57344, 57344, 2^127, 6.
double largest_small_float(graph::ElementType type);

}  // namespace crumb::libtorch
