// Number formats: the set of values that a code of one to eight bits can take. One table has a row per
// format; names, parsing, help, documentation and test sweeps all derive from it, so adding a format is
// adding a row.
//
// A code is stored as a bit pattern in the low `bits` bits of a byte:
//   integer       two's complement (signed) or plain binary (unsigned); value = code
//   half-integer  two's complement; value = code + 0.5
//   binary        one bit; 1 stands for +1, 0 for -1
//   ternary       two's complement in two bits; values -1, 0, 1
//   minifloat     sign, exponent, mantissa from the top bit down; value = decode_minifloat()
//   codebook      an index into 2^bits ascending values: fixed (nf4) or learned for the tensor (palette)
//   exponent      e8m0: value = 2^(code - 127), 255 is NaN; a scale format only
//
// A quantized tensor's value is (value of the code - zero point) * scale.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crumb {

enum class Grid : uint8_t { kInteger, kHalfInteger, kBinary, kMinifloat, kCodebook, kExponent };

/// Which bit patterns of a minifloat are no finite numbers.
enum class Specials : uint8_t {
  kNone,  ///< none: every pattern is a finite number
  kIeee,  ///< the top exponent holds inf (mantissa 0) and NaN
  kFn,    ///< only exponent and mantissa all ones: NaN
  kFnuz,  ///< only the pattern of -0: NaN; bias is one larger
};

/// Which part of an integer grid the quantizer uses.
enum class Range : uint8_t {
  kNarrow,  ///< signed: symmetric, -(2^(b-1)-1)..2^(b-1)-1; unsigned: 0..2^b-2 (as QONNX's narrow)
  kFull,    ///< every code
};

struct NumberFormat {
  std::string_view name;
  Grid grid;
  int bits;
  bool is_signed;
  int exponent_bits = 0;  ///< minifloats
  int mantissa_bits = 0;  ///< minifloats
  int bias = 0;           ///< minifloats: value = 2^(exponent - bias) * 1.mantissa
  Specials specials = Specials::kNone;
  bool learned = false;     ///< codebooks: the values are found per tensor
  bool scale_only = false;  ///< serves as a scale format, not for weights

  /// The range the quantizer uses when a spec names none.
  Range default_range() const;
  /// Whether a spec may choose a range / a zero point / a rounding mode for this format.
  bool has_range() const { return grid == Grid::kInteger && !(name == "ternary" || bits == 1); }
  bool has_zero_point() const { return grid == Grid::kInteger && name != "ternary"; }
  bool has_rounding() const { return grid != Grid::kBinary && grid != Grid::kCodebook; }
  /// Least and greatest code that the quantizer may emit: signed codes for integers and half-integers, bit
  /// patterns of finite values' magnitudes for the others (0..2^bits-1).
  int least_code(Range range) const;
  int greatest_code(Range range) const;
  /// The bit pattern of a code and back (sign extension for signed grids).
  uint8_t bits_of(int code) const { return static_cast<uint8_t>(code & ((1 << bits) - 1)); }
  int code_of(uint8_t pattern) const;
  /// The largest value of the grid: what max|x| is mapped to by an absmax scale. 1 for binary and codebooks.
  float largest_value(Range range) const;
};

/// All formats, in the order of `crumb formats`.
std::span<const NumberFormat> number_formats();

/// The format of that name, or nullptr.
const NumberFormat* find_number_format(std::string_view name);

/// The 16 values of NF4: quantiles of the normal distribution, QLoRA (arXiv:2305.14314), section 3,
/// ascending.
std::span<const float> nf4_values();

/// The value of each of the 2^bits bit patterns, before zero point and scale; inf and NaN where the format
/// has them. `codebook` holds the values of a learned codebook (2^bits of them) and is ignored otherwise.
std::array<float, 256> value_table(const NumberFormat& format, std::span<const float> codebook = {});

}  // namespace crumb
