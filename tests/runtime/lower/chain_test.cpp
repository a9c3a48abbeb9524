// Thresholds against chains: an oracle in fractions of 128 bits says what every sum that can occur gives.
#include "runtime/lower/chain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using crumb::runtime::Chain;
using crumb::runtime::ChainStep;
using crumb::runtime::compare;
using crumb::runtime::Expansion;
using crumb::runtime::kAlways;
using crumb::runtime::kNever;
using crumb::runtime::UniformQuantizer;
using Kind = ChainStep::Kind;

namespace {

using Wide = __int128;

/// top / bottom, bottom > 0, kept small by its greatest common divisor.
struct Fraction {
  Wide top = 0, bottom = 1;

  static Wide divisor(Wide a, Wide b) {
    while (b != 0) {
      const Wide rest = a % b;
      a = b;
      b = rest;
    }
    return a < 0 ? -a : a;
  }
  Fraction(Wide t, Wide b) : top(b < 0 ? -t : t), bottom(b < 0 ? -b : b) {
    const Wide by = divisor(top, bottom);
    if (by > 1) top /= by, bottom /= by;
  }
  explicit Fraction(double x) : Fraction(0, 1) {  // of few bits
    int exponent = 0;
    const double mantissa = std::frexp(x, &exponent);
    top = static_cast<Wide>(std::ldexp(mantissa, 24));
    exponent -= 24;
    for (; exponent > 0; --exponent) top *= 2;
    for (; exponent < 0; ++exponent) bottom *= 2;
    *this = Fraction(top, bottom);
  }
  Fraction operator+(const Fraction& o) const { return {top * o.bottom + o.top * bottom, bottom * o.bottom}; }
  Fraction operator*(const Fraction& o) const { return {top * o.top, bottom * o.bottom}; }
  Fraction operator/(const Fraction& o) const { return {top * o.bottom, bottom * o.top}; }
  bool operator<(const Fraction& o) const { return top * o.bottom < o.top * bottom; }
  Wide floor() const { return top / bottom - (top % bottom != 0 && top < 0 ? 1 : 0); }
};

Fraction value_of(double factor, const std::vector<ChainStep>& steps, std::size_t channel, std::int64_t sum) {
  Fraction v = Fraction(factor) * Fraction(sum, 1);
  for (const ChainStep& step : steps) {
    switch (step.kind) {
      case Kind::kAdd: v = v + Fraction(step.number(channel)); break;
      case Kind::kMultiply: v = v * Fraction(step.number(channel)); break;
      case Kind::kDivide: v = v / Fraction(step.number(channel)); break;
      case Kind::kLeaky:
        if (v.top < 0) v = v * Fraction(step.number(channel));
        break;
      case Kind::kClip:
        if (std::isfinite(step.low) && v < Fraction(step.low)) v = Fraction(step.low);
        if (std::isfinite(step.high) && Fraction(step.high) < v) v = Fraction(step.high);
        break;
    }
  }
  return v;
}

std::int32_t code_of(const Fraction& v, const UniformQuantizer& quantizer) {
  if (quantizer.bipolar) return v.top < 0 ? -1 : 1;
  Fraction u = v / Fraction(quantizer.scale);
  if (quantizer.ties_with_zero) u = u + Fraction(quantizer.zero, 1);
  Wide code = (u + Fraction(1, 2)).floor();
  const bool is_tie = (u + u).bottom == 1 && u.bottom == 2;
  if (is_tie && code % 2 != 0) --code;
  if (!quantizer.ties_with_zero) code += quantizer.zero;
  return static_cast<std::int32_t>(std::min<Wide>(std::max<Wide>(code, quantizer.low), quantizer.high));
}

struct Draws {
  std::mt19937_64 engine{20261124};

  std::int64_t from(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  }
  /// A number of few bits: ties are as frequent as they are on FPGAs.
  double number(bool positive = false) {
    const double x = std::ldexp(static_cast<double>(from(1, 31)), static_cast<int>(from(-5, 1)));
    return positive || from(0, 2) > 0 ? x : -x;
  }
  std::vector<double> numbers(std::size_t channels, bool positive = false) {
    std::vector<double> made(from(0, 1) == 0 ? 1 : channels);
    for (double& x : made) x = number(positive);
    return made;
  }
  ChainStep step(std::size_t channels) {
    const auto kind = static_cast<Kind>(from(0, 4));
    ChainStep made{.kind = kind, .numbers = numbers(channels, kind == Kind::kLeaky)};
    if (kind == Kind::kMultiply && from(0, 9) == 0) made.numbers[0] = 0;
    if (kind == Kind::kClip) {
      if (from(0, 3) > 0) made.low = from(0, 1) == 0 ? 0 : -number(true);
      if (from(0, 1) == 0) made.high = number(true);
    }
    return made;
  }
  UniformQuantizer quantizer() {
    if (from(0, 5) == 0) return {.scale = number(true), .low = -1, .high = 1, .bipolar = true};
    const auto bits = static_cast<int>(from(1, 8));
    const bool is_signed = bits > 1 && from(0, 1) == 1;
    UniformQuantizer made{.scale = number(true), .zero = static_cast<std::int32_t>(from(-3, 5))};
    made.low = is_signed ? -(1 << (bits - 1)) + static_cast<std::int32_t>(from(0, 1)) : 0;
    made.high = (1 << (is_signed ? bits - 1 : bits)) - 1;
    made.ties_with_zero = from(0, 1) == 0;
    return made;
  }
};

}  // namespace

TEST_CASE("thresholds equal their chains for every sum") {
  Draws draw;
  std::size_t sums = 0, changes = 0, falling = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto channels = static_cast<std::size_t>(draw.from(1, 3));
    std::vector<double> factors(channels);
    for (double& f : factors) f = draw.number();
    std::vector<ChainStep> steps(static_cast<std::size_t>(draw.from(0, 4)));
    for (ChainStep& step : steps) step = draw.step(channels);
    const Chain chain(factors, steps);
    REQUIRE(chain.is_sound());
    const UniformQuantizer quantizer = draw.quantizer();
    for (std::size_t c = 0; c < channels; ++c) {
      const std::int32_t most = static_cast<std::int32_t>(draw.from(0, 150)),
                         least = -static_cast<std::int32_t>(draw.from(0, 150));
      const int direction = chain.falls(c) ? -1 : 1;
      falling += chain.falls(c) ? 1 : 0;
      const auto thresholds = direction > 0 ? chain.thresholds(c, least, most, quantizer)
                                            : chain.thresholds(c, -most, -least, quantizer);
      REQUIRE(thresholds.size() == static_cast<std::size_t>(quantizer.steps()));
      CHECK(std::ranges::is_sorted(thresholds));
      std::int32_t before = 0;
      for (std::int32_t sum = least; sum <= most; ++sum, ++sums) {
        const std::int32_t expected = code_of(value_of(factors[c], steps, c, sum), quantizer);
        const auto reached = std::ranges::upper_bound(thresholds, direction * sum) - thresholds.begin();
        REQUIRE(quantizer.code(static_cast<std::int32_t>(reached)) == expected);
        REQUIRE(chain.code(c, sum, quantizer) == expected);
        changes += sum > least && expected != before ? 1 : 0;
        before = expected;
      }
    }
  }
  // So that it cannot pass by chains that give one code.
  CHECK(sums > 500'000);
  CHECK(changes > 50'000);
  CHECK(falling > 1000);
}

TEST_CASE("sums are exact where doubles are not") {
  Draws draw;
  for (int round = 0; round < 2000; ++round) {
    // a b + c - (a b + c + tiny) by expansions, with products of 100 bits and more.
    const double a = static_cast<double>(draw.from(1, std::int64_t{1} << 53)),
                 b = static_cast<double>(draw.from(1, std::int64_t{1} << 53));
    const double c =
        std::ldexp(static_cast<double>(draw.from(-1000, 1000)), static_cast<int>(draw.from(-60, 120)));
    const double tiny =
        std::ldexp(1.0, static_cast<int>(draw.from(-120, 40))) * (draw.from(0, 1) == 0 ? 1 : -1);
    Expansion left(a), right(a);
    left.multiply(b);
    right.multiply(b);
    left.add(c);
    right.add(tiny);
    right.add(c);
    CHECK(compare(left, right) == (tiny > 0 ? -1 : 1));
    right.add(-tiny);
    CHECK(compare(left, right) == 0);
  }
}

TEST_CASE("chains whose numbers leave the range of exact arithmetic are not sound") {
  CHECK(Chain({1.0}, {}).is_sound());
  CHECK_FALSE(Chain({0.0}, {}).is_sound());
  CHECK_FALSE(Chain({1.0}, {{.kind = Kind::kDivide, .numbers = {0}}}).is_sound());
  CHECK_FALSE(Chain({1.0}, {{.kind = Kind::kLeaky, .numbers = {-0.5}}}).is_sound());
  CHECK_FALSE(Chain({1.0}, {{.kind = Kind::kAdd, .numbers = {1e30}}}).is_sound());
  CHECK_FALSE(Chain({1.0}, {{.kind = Kind::kAdd, .numbers = {std::nan("")}}}).is_sound());
  CHECK_FALSE(Chain({1.0, 1.0}, {{.kind = Kind::kAdd, .numbers = {1, 2, 3}}}).is_sound());
  CHECK_FALSE(Chain({1.0}, std::vector<ChainStep>(13, {.kind = Kind::kAdd, .numbers = {1}})).is_sound());
}

TEST_CASE("what no sum or every sum reaches") {
  const Chain chain({1.0}, {});
  const UniformQuantizer quantizer{.scale = 1, .low = 0, .high = 3};
  CHECK(chain.thresholds(0, -5, 0, quantizer) == std::vector<std::int32_t>{kNever, kNever, kNever});
  CHECK(chain.thresholds(0, 2, 9, quantizer) == std::vector<std::int32_t>{kAlways, kAlways, 3});
}
