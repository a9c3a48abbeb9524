// Elementary functions: within what is stated of the true values, and the same bits on every instruction set.
#include "runtime/exact/functions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/testing.h"

using crumb::Isa;
using crumb::runtime::exact::apply;
using crumb::runtime::exact::apply_with;
using crumb::runtime::exact::Function;
using crumb::runtime::exact::FunctionRow;
using crumb::runtime::exact::kFunctions;

namespace {

double true_value(Function function, double x) {
  switch (function) {
    case Function::kExp: return std::exp(x);
    case Function::kLog: return std::log(x);
    case Function::kTanh: return std::tanh(x);
    case Function::kSigmoid: return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
    case Function::kErf: return std::erf(x);
    case Function::kSqrt: return std::sqrt(x);
  }
  return 0;
}

/// Units in the last place of the true value that lie between; 0 where both are no number, or the same infinity.
double error_in_units(float found, double expected) {
  if (std::isnan(expected) || std::isnan(found))
    return std::isnan(expected) && std::isnan(found) ? 0 : HUGE_VAL;
  const double largest = static_cast<double>(std::numeric_limits<float>::max());
  if (std::isinf(found) || std::fabs(expected) > largest) {
    // Beyond the largest number: it or infinity, by what rounding says.
    if (std::fabs(expected) > largest * (1 + 0x1p-22))
      return std::isinf(found) && (found > 0) == (expected > 0) ? 0 : HUGE_VAL;
    if (std::isinf(found)) return std::fabs(expected) > largest * (1 - 0x1p-21) ? 0 : HUGE_VAL;
  }
  int exponent = -126;
  if (expected != 0) exponent = std::max(std::ilogb(expected), -126);
  return std::fabs(static_cast<double>(found) - expected) / std::ldexp(1.0, exponent - 23);
}

/// Every step-th pattern of a float, from `first` on.
std::vector<float> patterns(std::uint64_t first, std::uint64_t step, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i * step));
  return values;
}

}  // namespace

TEST_CASE("functions: within the stated units in the last place, over floats of all sizes") {
  const std::uint64_t step = crumb::testing::slow() ? 13 : 4099;
  constexpr std::uint64_t kAll = std::uint64_t{1} << 32;
  constexpr std::size_t kPiece = 1 << 16;
  for (const FunctionRow& row : kFunctions) {
    CAPTURE(row.name);
    double most = 0;
    float worst = 0;
    for (std::uint64_t first = 0; first < kAll; first += step * kPiece) {
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, (kAll - first + step - 1) / step));
      const std::vector<float> x = patterns(first, step, count);
      std::vector<float> y(count), other(count);
      apply(row.function, x, y);
      for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
        if (!crumb::may_use(isa)) continue;
        apply_with(isa, row.function, x, other);
        bool same = true;
        for (std::size_t i = 0; i < count; ++i)
          same &= std::bit_cast<std::uint32_t>(y[i]) == std::bit_cast<std::uint32_t>(other[i]) ||
                  (y[i] != y[i] && other[i] != other[i]);
        CHECK(same);
      }
      for (std::size_t i = 0; i < count; ++i) {
        const double error = error_in_units(y[i], true_value(row.function, static_cast<double>(x[i])));
        if (error > most) {
          most = error;
          worst = x[i];
        }
      }
    }
    CAPTURE(worst);
    if (crumb::testing::slow()) MESSAGE(row.name << ": " << most);
    CHECK(most <= row.error);
  }
}

TEST_CASE("functions: at the ends") {
  const auto of = [](Function function, float x) {
    float y = 0;
    apply(function, {&x, 1}, {&y, 1});
    return y;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(of(Function::kExp, 0) == 1);
  CHECK(of(Function::kExp, -infinity) == 0);
  CHECK(of(Function::kExp, infinity) == infinity);
  CHECK(of(Function::kLog, 1) == 0);
  CHECK(of(Function::kLog, 0) == -infinity);
  CHECK(std::isnan(of(Function::kLog, -1)));
  CHECK(of(Function::kLog, infinity) == infinity);
  CHECK(of(Function::kTanh, infinity) == 1);
  CHECK(of(Function::kTanh, -infinity) == -1);
  CHECK(std::signbit(of(Function::kTanh, -0.0F)));
  CHECK(of(Function::kSigmoid, 0) == 0.5F);
  CHECK(of(Function::kSigmoid, infinity) == 1);
  CHECK(of(Function::kSigmoid, -infinity) == 0);
  CHECK(of(Function::kErf, infinity) == 1);
  CHECK(of(Function::kErf, -infinity) == -1);
  for (const FunctionRow& row : kFunctions) CHECK(std::isnan(of(row.function, std::nanf(""))));
}
