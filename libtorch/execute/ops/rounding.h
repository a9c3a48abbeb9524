// How QONNX rounds: its rounding modes, in float32 as its reference computes them, signs of zero included.
//
// The half modes add 0.5 in the type of the values, so 0.49999997 rounds up under HALF_UP and 8388609 becomes
// 8388610; UP and the half modes multiply by the sign, so -0 becomes 0 and HALF_DOWN(0.2) is -0.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

namespace crumb::libtorch {

enum class Rounding : std::uint8_t { kHalfEven, kCeil, kFloor, kUp, kDown, kHalfUp, kHalfDown };

/// By QONNX's name in any case ("ROUND" is HALF_EVEN); nothing for others.
std::optional<Rounding> find_rounding(std::string_view name);

/// Every value rounded; gradients do not pass.
at::Tensor rounded(const at::Tensor& values, Rounding mode);

namespace lane {

// Written so that compilers turn loops of them into vector instructions of any x86-64; inlined always,
// because they otherwise stay calls in functions that are compiled for more than the others.

[[gnu::always_inline]] inline float half_even(float x) {
  const float size = std::fabs(x);
  const float unit = size < 0x1p23F ? 0x1p23F : 0.0F;  // a choice between results would be a branch
  return std::copysign((size + unit) - unit, x);
}
[[gnu::always_inline]] inline float floor(float x) {
  const float near = half_even(x);
  return near - (near > x ? 1.0F : 0.0F);
}
[[gnu::always_inline]] inline float ceil(float x) { return -lane::floor(-x); }
[[gnu::always_inline]] inline float sign(float x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : x == 0 ? 0.0F : x; }

template <Rounding Mode>
[[gnu::always_inline]] inline float rounded(float x) {
  if constexpr (Mode == Rounding::kHalfEven) return half_even(x);
  if constexpr (Mode == Rounding::kCeil) return lane::ceil(x);
  if constexpr (Mode == Rounding::kFloor) return lane::floor(x);
  if constexpr (Mode == Rounding::kDown) return std::copysign(lane::floor(std::fabs(x)), x);
  if constexpr (Mode == Rounding::kUp) return lane::sign(x) * lane::ceil(std::fabs(x));
  if constexpr (Mode == Rounding::kHalfUp) return lane::sign(x) * lane::floor(std::fabs(x) + 0.5F);
  if constexpr (Mode == Rounding::kHalfDown) return lane::sign(x) * lane::ceil(std::fabs(x) - 0.5F);
}

/// Calls `body.template operator()<mode>()`.
template <class Body>
decltype(auto) with_rounding(Rounding mode, Body&& body) {
  switch (mode) {
    case Rounding::kCeil: return body.template operator()<Rounding::kCeil>();
    case Rounding::kFloor: return body.template operator()<Rounding::kFloor>();
    case Rounding::kUp: return body.template operator()<Rounding::kUp>();
    case Rounding::kDown: return body.template operator()<Rounding::kDown>();
    case Rounding::kHalfUp: return body.template operator()<Rounding::kHalfUp>();
    case Rounding::kHalfDown: return body.template operator()<Rounding::kHalfDown>();
    case Rounding::kHalfEven: break;
  }
  return body.template operator()<Rounding::kHalfEven>();
}

}  // namespace lane
}  // namespace crumb::libtorch
