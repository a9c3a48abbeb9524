// Values to the codes of a quantizer with one scale, and back, in float32: what Codes and Values
// (lower/domain.h) say.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crumb::runtime::integer {

/// Codes are bytes, int8 or uint8.
struct CodeScale {
  float scale = 1, zero = 0;
  float low = 0, high = 0;  ///< the least and the greatest code
  bool bipolar = false;     ///< codes -1 and 1, by the sign
  bool is_signed = false;   ///< codes are int8
};

/// codes[i] = the integer nearest to clamp(x[i] / scale + zero, low, high), ties to even; NaN gives the
/// least. Gives whether all of x is finite.
bool codes_of(const CodeScale& by, const float* x, std::size_t count, std::uint8_t* codes);
/// y[i] = (code - zero) * scale of the same integers, but that NaN stays NaN where the codes are not bipolar.
/// Gives whether all of x is finite. x and y may be one.
bool quantized_of(const CodeScale& by, const float* x, std::size_t count, float* y);
/// x[i] = (codes[i] - zero) * scale.
void values_of(const CodeScale& by, const std::uint8_t* codes, std::size_t count, float* x);

/// On any processor, and with AVX2: those that the three above choose from. Precondition:
/// may_use(Isa::kAvx2).
bool codes_of_portable(const CodeScale& by, const float* x, std::size_t count, std::uint8_t* codes);
bool quantized_of_portable(const CodeScale& by, const float* x, std::size_t count, float* y);
void values_of_portable(const CodeScale& by, const std::uint8_t* codes, std::size_t count, float* x);
bool codes_of_avx2(const CodeScale& by, const float* x, std::size_t count, std::uint8_t* codes);
bool quantized_of_avx2(const CodeScale& by, const float* x, std::size_t count, float* y);
void values_of_avx2(const CodeScale& by, const std::uint8_t* codes, std::size_t count, float* x);

}  // namespace crumb::runtime::integer
