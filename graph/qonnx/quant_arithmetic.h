// What QONNX's quantizers compute, one number at a time: the definition to which all other code is compared.
//
// Bit for bit what qonnx 1.0.0 computes in NumPy: a true division by the scale, the zero point added, clamped
// and only then rounded, and back again, each step in the type that NumPy 2 gives it (float32, and float64
// from the first operand that is float64 or a 32- or 64-bit integer).
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace crumb::graph {

/// QONNX's rounding modes. The half modes add 0.5 in the type of the values: HALF_UP(0.49999997) is 1.
enum class QuantRounding : std::uint8_t { kHalfEven, kCeil, kFloor, kUp, kDown, kHalfUp, kHalfDown };

/// Returns the mode of a name in any case; "ROUND" is HALF_EVEN. Nothing for other names.
std::optional<QuantRounding> find_quant_rounding(std::string_view name);

/// Returns x rounded; x is a float32 unless `wide`.
double rounded(double x, QuantRounding mode, bool wide = false);

/// A width and its bounds, which may both be fractions.
struct IntegerFormat {
  double bits = 8;
  bool is_signed = true;
  bool narrow = false;
  bool wide = false;  ///< the width is not float32: compute the bounds in float64

  double lower() const;
  double upper() const;
  bool is_bipolar() const { return bits == 1 && is_signed; }  ///< -1 and 1, whatever `narrow` and rounding
};

/// A tensor: its row-major values. `wide`: its type in the file is float64, int32, int64 or another with
/// which NumPy computes float32 operands in float64.
struct QuantOperand {
  std::span<const double> values;
  std::span<const std::int64_t> shape;
  bool wide = false;
};

struct Quantized {
  std::vector<float> values;     ///< (integer - zero point) * scale
  std::vector<double> integers;  ///< before the zero point is subtracted; NaN where x is NaN
};

/// Computes Quant and IntQuant. A Failure where scale or zero point do not broadcast to x.
Result<Quantized> quantize(const QuantOperand& x, const QuantOperand& scale, const QuantOperand& zero_point,
                           const IntegerFormat& format, QuantRounding mode);

/// Computes BipolarQuant: scale where x >= 0, else -scale (NaN too). The integers are 1 and -1.
Result<Quantized> quantize_bipolar(const QuantOperand& x, const QuantOperand& scale);

/// FloatQuant's grid: it reserves no codes and always has subnormals.
struct FloatFormat {
  double exponent_bits = 4, mantissa_bits = 3, exponent_bias = 7;
  double max_value = INFINITY;  ///< the file's own limit
  bool has_inf = false, has_nan = false, saturates = true;

  double largest() const;  ///< values are clamped to it
};

/// Computes FloatQuant, saturating or not. A Failure where the scale does not broadcast to x, and where
/// values exceed a format that does not saturate and has neither infinity nor NaN. `integers` stay empty.
Result<Quantized> quantize_float(const QuantOperand& x, const QuantOperand& scale, const FloatFormat& format,
                                 QuantRounding mode);

}  // namespace crumb::graph
