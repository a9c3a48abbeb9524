#include "runtime/exact/by_double.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace crumb::runtime::exact {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                kNan = std::numeric_limits<float>::quiet_NaN();

/// The first 256 bits of 2 / pi, which lies below 1.
constexpr std::uint64_t kTwoOverPi[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
                                        0xfe5163abdebbc561};

/// 64 bits of 2 / pi from bit `first` on. Bits of negative index are zeros.
std::uint64_t bits_from(int first) {
  const auto word = [](int i) { return i >= 0 && i < 4 ? kTwoOverPi[i] : std::uint64_t{0}; };
  const int at = first >= 0 ? first / 64 : -((-first + 63) / 64), shift = first - 64 * at;
  return shift == 0 ? word(at) : word(at) << shift | word(at + 1) >> (64 - shift);
}

/// x = k pi/2 + r with |r| <= pi/4: k modulo 4, and r. x is finite and not negative. The quotient is exact to
/// 2^-62: of the product of x's 24 bits and 2 / pi only the bits around the point are looked at.
std::pair<unsigned, double> quarter_turns(float x) {
  constexpr double kQuarter = 0x1.921fb54442d18p+0;
  if (x < 0.78F) return {0, static_cast<double>(x)};
  int exponent = 0;
  const auto mantissa = static_cast<std::uint64_t>(
      std::ldexp(std::frexp(x, &exponent), 24));  // x = mantissa * 2^(exponent - 24)
  const int shift = exponent - 24;
  // mantissa * 2^shift * 2/pi: bits of 2/pi above 2^-(shift + 2) make multiples of 4 only.
  const int first = shift - 2;
  const std::uint64_t high = bits_from(first), low = bits_from(first + 64);
  // (high + low / 2^64) / 2^62 * mantissa, modulo 4, in units of 2^-62.
  const std::uint64_t carried =
      static_cast<std::uint64_t>((static_cast<unsigned __int128>(low) * mantissa) >> 64);
  const std::uint64_t turns = high * mantissa + carried;
  const std::uint64_t rounded = turns + (std::uint64_t{1} << 61);
  const auto left = static_cast<std::int64_t>(turns - (rounded >> 62 << 62));
  return {static_cast<unsigned>(rounded >> 62), static_cast<double>(left) * 0x1p-62 * kQuarter};
}

/// |r| <= pi/4 and a little; by their series.
double sin_near_zero(double r) {
  const double s = r * r;
  double p = 1.0 / 355687428096000;
  for (const double c : {-1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040,
                         1.0 / 120, -1.0 / 6})
    p = p * s + c;
  return r + r * s * p;
}
double cos_near_zero(double r) {
  const double s = r * r;
  double p = 1.0 / 20922789888000;
  for (const double c :
       {-1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5})
    p = p * s + c;
  return 1 + s * p;
}

/// The sine of an angle plus `quarters` right angles.
double turned_sine(float x, unsigned quarters) {
  const auto [turns, r] = quarter_turns(x);
  const unsigned k = (turns + quarters) % 4;
  const double size = k % 2 == 0 ? sin_near_zero(r) : cos_near_zero(r);
  return k >= 2 ? -size : size;
}

/// x = 2^e m with m in [sqrt(1/2), sqrt(2)), and log m = 2 (s + s^3 / 3 + ...) with s = (m - 1) / (m + 1).
double log_double(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0x1.6a09e667f3bcdp-1) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double p = 1.0 / 21;
  for (const double c :
       {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3})
    p = p * square + c;
  const auto e = static_cast<double>(exponent);
  return e * 0x1.62e42fee00000p-1 + (2 * s + (2 * s * square * p + e * 0x1.a39ef35793c76p-33));
}

/// For -110 < x < 90: x = n ln 2 + r, and the series of e^r.
double exp_double(double x) {
  const double n = std::nearbyint(x * 0x1.71547652b82fep+0);
  const double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  double p = 1;
  for (int k = 15; k >= 1; --k) p = 1 + r * p / k;
  return std::ldexp(p, static_cast<int>(n));
}

bool is_whole(float y) { return std::trunc(y) == y; }
bool is_odd(float y) {
  return is_whole(y) && std::fabs(y) < 0x1p24F && static_cast<std::int32_t>(y) % 2 != 0;
}

}  // namespace

float sin_of(float x) {
  if (!std::isfinite(x)) return kNan;
  if (x == 0) return x;  // of either sign
  const auto size = static_cast<float>(turned_sine(std::fabs(x), 0));
  return x < 0 ? -size : size;
}

double normal_of(double u, double v) {
  constexpr double kQuarter = 0x1.921fb54442d18p+0;
  const double quarters = std::nearbyint(v * 4), r = (v * 4 - quarters) * kQuarter;
  const int k = static_cast<int>(quarters) % 4;
  const double size = k % 2 == 0 ? cos_near_zero(r) : sin_near_zero(r);
  return std::sqrt(-2 * log_double(1 - u)) * (k == 1 || k == 2 ? -size : size);
}

float cos_of(float x) { return std::isfinite(x) ? static_cast<float>(turned_sine(std::fabs(x), 1)) : kNan; }

Turn turn_of(std::uint64_t k, std::uint64_t n) {
  constexpr double kQuarter = 0x1.921fb54442d18p+0;
  const std::uint64_t quarters = (8 * k + n) / (2 * n);  // the nearest multiple of a right angle
  const auto left = static_cast<std::int64_t>(4 * k) - static_cast<std::int64_t>(quarters * n);
  const double r = static_cast<double>(left) / static_cast<double>(n) * kQuarter;
  const double cosine = cos_near_zero(r), sine = sin_near_zero(r);
  switch (quarters % 4) {
    case 0: return {cosine, sine};
    case 1: return {-sine, cosine};
    case 2: return {-cosine, -sine};
    default: return {sine, -cosine};
  }
}

float pow_of(float x, float y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return kNan;
  const float size = std::fabs(x);
  const float sign = std::signbit(x) && is_odd(y) ? -1.0F : 1.0F;
  if (std::isinf(y)) return size == 1 ? 1.0F : (size < 1) == (y < 0) ? kInfinity : 0.0F;
  if (size == 0 || size == kInfinity) return (size == 0) == (y < 0) ? sign * kInfinity : sign * 0.0F;
  if (x < 0 && !is_whole(y)) return kNan;
  const double power = static_cast<double>(y) * log_double(static_cast<double>(size));
  if (power >= 89) return sign * kInfinity;
  if (power <= -105) return sign * 0.0F;
  return sign * static_cast<float>(exp_double(power));
}

}  // namespace crumb::runtime::exact
