// The number formats once more, written from the design's numeric contract and not from our tables: what a
// name means, the value of every bit pattern, the nearest code of a value. Slow and plain, for tests to
// compare with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crumb::testing {

/// A number format as its name says it.
struct OracleFormat {
  enum Kind { kSigned, kUnsigned, kHalf, kBinary, kTernary, kFloat, kNf4, kPalette } kind;
  int bits = 0;
  int exponent_bits = 0, mantissa_bits = 0;
  enum Special { kPlain, kIeee, kFn, kFnuz } special = kPlain;

  bool integer() const { return kind == kSigned || kind == kUnsigned || kind == kTernary; }
};

inline OracleFormat oracle_format(std::string_view name) {
  const auto starts = [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; };
  const auto digit = [&](size_t at) { return name[at] - '0'; };
  if (name == "binary") return {OracleFormat::kBinary, 1};
  if (name == "ternary") return {OracleFormat::kTernary, 2};
  if (name == "nf4") return {OracleFormat::kNf4, 4};
  if (starts("palette")) return {OracleFormat::kPalette, digit(7)};
  if (starts("uint")) return {OracleFormat::kUnsigned, digit(4)};
  if (starts("int")) return {name.back() == 'h' ? OracleFormat::kHalf : OracleFormat::kSigned, digit(3)};
  OracleFormat format{OracleFormat::kFloat, 1 + digit(1) + digit(3), digit(1), digit(3)};
  if (name == "e5m2") format.special = OracleFormat::kIeee;
  if (name.size() > 4) format.special = name.substr(4) == "fn" ? OracleFormat::kFn : OracleFormat::kFnuz;
  return format;
}

/// The value of a minifloat's bit pattern, from sign, exponent and mantissa in double.
inline double oracle_minifloat(const OracleFormat& f, int pattern) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const int sign = pattern >> (f.bits - 1) & 1;
  const int exponent = (pattern >> f.mantissa_bits) % (1 << f.exponent_bits);
  const int mantissa = pattern % (1 << f.mantissa_bits);
  const int top_exponent = (1 << f.exponent_bits) - 1, top_mantissa = (1 << f.mantissa_bits) - 1;
  const int bias = (1 << (f.exponent_bits - 1)) - (f.special == OracleFormat::kFnuz ? 0 : 1);
  if (f.special == OracleFormat::kIeee && exponent == top_exponent) {
    return mantissa != 0 ? nan : sign ? -HUGE_VAL : HUGE_VAL;
  }
  if (f.special == OracleFormat::kFn && exponent == top_exponent && mantissa == top_mantissa) return nan;
  if (f.special == OracleFormat::kFnuz && sign && exponent == 0 && mantissa == 0) return nan;
  const double fraction = mantissa / std::pow(2.0, f.mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::pow(2.0, 1 - bias) * fraction : std::pow(2.0, exponent - bias) * (1 + fraction);
  return sign ? -magnitude : magnitude;
}

/// The nearest finite pattern of a minifloat, ties to the even mantissa; without mantissa bits ties go where
/// 2^e * round_half_even(x / 2^e) sends them, e the exponent of x: up, but half the smallest value to zero.
/// Saturates.
inline int oracle_encode_minifloat(const OracleFormat& f, float x) {
  const int half = 1 << (f.bits - 1);
  double largest = 0;
  for (int pattern = 0; pattern < half; ++pattern) {
    const double value = oracle_minifloat(f, pattern);
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  const double size = std::min(std::fabs(static_cast<double>(x)), largest);
  int best = 0;
  double least = HUGE_VAL;
  for (int pattern = 0; pattern < half; ++pattern) {
    const double value = oracle_minifloat(f, pattern);
    if (!std::isfinite(value)) continue;
    const double distance = std::fabs(value - size);
    const bool to_upper = f.mantissa_bits > 0 ? pattern % 2 == 0 : best != 0;
    if (distance < least || (distance == least && to_upper)) {
      least = distance;
      best = pattern;
    }
  }
  if (f.special == OracleFormat::kFnuz && best == 0) return 0;
  return std::signbit(x) ? best + half : best;
}

/// float32 round half to even, without the floating-point environment.
inline float oracle_round(float v) {
  if (std::fabs(v) >= 0x1p23F) return v;
  const float below = std::floor(v), rest = v - below;
  if (rest != 0.5F) return rest < 0.5F ? below : below + 1;
  return std::fmod(below, 2.0F) == 0 ? below : below + 1;
}

inline float oracle_round(std::string_view mode, float v) {
  const float sign = std::signbit(v) ? -1.0F : 1.0F, size = std::fabs(v);
  if (mode == "half_even") return oracle_round(v);
  if (mode == "half_up") return sign * std::floor(size + 0.5F);
  if (mode == "half_down") return sign * std::ceil(size - 0.5F);
  if (mode == "ceil") return std::ceil(v);
  if (mode == "floor") return std::floor(v);
  if (mode == "up") return sign * std::ceil(size);
  return sign * std::floor(size);  // down
}

/// Least and greatest code of a grid of integers or half-integers.
inline std::pair<int, int> oracle_codes(const OracleFormat& f, bool narrow) {
  const int half = 1 << (f.bits - 1);
  switch (f.kind) {
    case OracleFormat::kSigned: return {narrow ? 1 - half : -half, half - 1};
    case OracleFormat::kUnsigned: return {0, 2 * half - (narrow ? 2 : 1)};
    case OracleFormat::kHalf: return {-half, half - 1};
    case OracleFormat::kTernary: return {-1, 1};
    default: return {0, 2 * half - 1};
  }
}

/// The value of a bit pattern before zero point and scale. `codebook`: of nf4 and palettes.
inline float oracle_value(const OracleFormat& f, int pattern, const std::vector<float>& codebook) {
  const bool high = pattern >> (f.bits - 1) & 1;
  switch (f.kind) {
    case OracleFormat::kSigned:
    case OracleFormat::kTernary: return static_cast<float>(high ? pattern - (1 << f.bits) : pattern);
    case OracleFormat::kHalf: return static_cast<float>(high ? pattern - (1 << f.bits) : pattern) + 0.5F;
    case OracleFormat::kUnsigned: return static_cast<float>(pattern);
    case OracleFormat::kBinary: return pattern == 1 ? 1.0F : -1.0F;
    case OracleFormat::kFloat: return static_cast<float>(oracle_minifloat(f, pattern));
    case OracleFormat::kNf4:
    case OracleFormat::kPalette: break;
  }
  return codebook.at(static_cast<size_t>(pattern));
}

/// The bit pattern that the contract gives to x under scale s and zero point z, for any rounding mode of
/// integers and half-even of the others.
inline int oracle_encode(const OracleFormat& f, bool narrow, std::string_view mode, float x, float s, float z,
                         const std::vector<float>& codebook) {
  const float t = x / s;
  if (f.kind == OracleFormat::kBinary) return t >= 0 ? 1 : 0;
  if (f.kind == OracleFormat::kFloat) return oracle_encode_minifloat(f, t);
  if (f.kind == OracleFormat::kNf4 || f.kind == OracleFormat::kPalette) {
    size_t best = 0;
    for (size_t k = 1; k < codebook.size(); ++k) {
      // |t - c[k]| < |t - c[best]| without rounding: c ascends, so t lies above the middle of the two.
      if (2 * static_cast<double>(t) > static_cast<double>(codebook[k]) + static_cast<double>(codebook[best]))
        best = k;
    }
    return static_cast<int>(best);
  }
  const auto [lo, hi] = oracle_codes(f, narrow);
  const float shifted = f.kind == OracleFormat::kHalf ? t - 0.5F : t + z;
  const float q =
      std::fmin(std::fmax(oracle_round(mode, shifted), static_cast<float>(lo)), static_cast<float>(hi));
  return static_cast<int>(q) & ((1 << f.bits) - 1);
}

/// IEEE binary16 and bfloat16 from their fields.
inline float oracle_f16(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(bits & 0x8000 ? -magnitude : magnitude);
}
inline float oracle_bf16(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 7 & 255), mantissa = static_cast<int>(bits & 127);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -133) : std::ldexp(128 + mantissa, exponent - 134);
  return static_cast<float>(bits & 0x8000 ? -magnitude : magnitude);
}

/// The scale of a stored pattern, by the format's name.
inline float oracle_scale(std::string_view format, uint32_t bits) {
  if (format == "f32") {
    const int exponent = static_cast<int>(bits >> 23 & 255), mantissa = static_cast<int>(bits & 0x7FFFFF);
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -149) : std::ldexp((1 << 23) + mantissa, exponent - 150);
    return static_cast<float>(bits >> 31 ? -magnitude : magnitude);
  }
  if (format == "f16") return oracle_f16(bits);
  if (format == "bf16") return oracle_bf16(bits);
  if (format == "e8m0")
    return bits == 255 ? 0.0F : static_cast<float>(std::ldexp(1.0, static_cast<int>(bits) - 127));
  return static_cast<float>(oracle_minifloat(oracle_format("e4m3fn"), static_cast<int>(bits)));
}

/// The nearest finite pattern of a scale format to a positive finite scale, never 0; ties to the even
/// pattern. By search over the patterns; f32 gives the bits.
inline uint32_t oracle_encode_scale(std::string_view format, float scale) {
  if (format == "f32") {
    uint32_t bits;
    static_assert(sizeof bits == sizeof scale);
    __builtin_memcpy(&bits, &scale, sizeof bits);
    return bits;
  }
  const bool exponent_only = format == "e8m0";
  const uint32_t least = exponent_only ? 0 : 1;
  const uint32_t most = format == "f16" ? 0x7BFF : format == "bf16" ? 0x7F7F : exponent_only ? 254 : 0x7E;
  // The last pattern whose value is not above the scale, by bisection; then it or the next.
  if (oracle_scale(format, least) >= scale) return least;
  uint32_t below = least, above = most + 1;
  while (above - below > 1) {
    const uint32_t middle = (below + above) / 2;
    (oracle_scale(format, middle) <= scale ? below : above) = middle;
  }
  if (below == most) return most;
  const double down = static_cast<double>(scale) - static_cast<double>(oracle_scale(format, below));
  const double up = static_cast<double>(oracle_scale(format, below + 1)) - static_cast<double>(scale);
  return down < up || (down == up && below % 2 == 0) ? below : below + 1;
}

}  // namespace crumb::testing
