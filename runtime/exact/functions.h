// Elementary functions of float32 in additions, multiplications, divisions and fused multiply-adds in a fixed
// order: the same bits on every instruction set. No library's function is called.
//
// Each is the nearest float32 to the true value or a neighbour of it, within the units in the last place (of
// the true value, subnormal results in units of 2^-149) that kFunctions states; NaN gives NaN.
// tests/runtime/exact/ measures it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/processor.h"

namespace crumb::runtime::exact {

enum class Function : std::uint8_t { kExp, kLog, kTanh, kSigmoid, kErf, kSqrt };

struct FunctionRow {
  Function function;
  std::string_view name;
  double error;  ///< units in the last place, at most
};
inline constexpr FunctionRow kFunctions[] = {
    {Function::kExp, "exp", 1},           {Function::kLog, "log", 1},   {Function::kTanh, "tanh", 1.5},
    {Function::kSigmoid, "sigmoid", 2.5}, {Function::kErf, "erf", 2.5}, {Function::kSqrt, "sqrt", 0.5},
};

/// y[i] = f(x[i]); y may be x. Preconditions: as many, and they are the same memory or do not overlap.
void apply(Function function, std::span<const float> x, std::span<float> y);

/// apply() with a given instruction set, which must be available; for tests.
void apply_with(Isa isa, Function function, std::span<const float> x, std::span<float> y);

/// A single value, as apply() computes it.
float exp_of(float x);
float tanh_of(float x);

}  // namespace crumb::runtime::exact
