#include "libtorch/execute/ops/rounding.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <string>

namespace crumb::libtorch {
namespace {

/// 0 for both zeros, NaN for NaN.
at::Tensor sign_of(const at::Tensor& x) { return at::where(x.isnan(), x, at::sign(x)) + 0.0; }

}  // namespace

std::optional<Rounding> find_rounding(std::string_view name) {
  static constexpr std::pair<std::string_view, Rounding> kNames[] = {
      {"ROUND", Rounding::kHalfEven}, {"HALF_EVEN", Rounding::kHalfEven},
      {"CEIL", Rounding::kCeil},      {"FLOOR", Rounding::kFloor},
      {"UP", Rounding::kUp},          {"DOWN", Rounding::kDown},
      {"HALF_UP", Rounding::kHalfUp}, {"HALF_DOWN", Rounding::kHalfDown},
  };
  std::string upper(name);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  for (const auto& [spelled, mode] : kNames) {
    if (upper == spelled) return mode;
  }
  return std::nullopt;
}

at::Tensor rounded(const at::Tensor& values, Rounding mode) {
  const at::NoGradGuard no_gradients;
  switch (mode) {
    case Rounding::kHalfEven: break;
    case Rounding::kCeil: return at::ceil(values);
    case Rounding::kFloor: return at::floor(values);
    case Rounding::kDown: return at::trunc(values);
    case Rounding::kUp: return sign_of(values) * at::ceil(values.abs());
    case Rounding::kHalfUp: return sign_of(values) * at::floor(values.abs() + 0.5);
    case Rounding::kHalfDown: return sign_of(values) * at::ceil(values.abs() - 0.5);
  }
  return at::round(values);
}

}  // namespace crumb::libtorch
