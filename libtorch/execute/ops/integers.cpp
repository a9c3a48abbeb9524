#include "libtorch/execute/ops/integers.h"

#include <ATen/ATen.h>

#include <limits>

#include "libtorch/execute/small_floats.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

/// values / 2 of 64 bits without a sign.
at::Tensor half_of(const at::Tensor& values) {
  return values.bitwise_right_shift(1).bitwise_and(at::Scalar(kMost));
}

at::Tensor not_less(const at::Tensor& a, const at::Tensor& b) {
  return ordered(a, ElementType::kUint64) >= ordered(b, ElementType::kUint64);
}

/// Division of 64 bits without a sign. A divisor beyond 2^63 goes once or not at all; for others, twice the
/// quotient of half of a is at most 1 too small.
at::Tensor divide_unsigned(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor large = b < 0;
  const at::Tensor divisor = at::where(large, at::ones_like(b), b);
  const at::Tensor estimate = at::div(half_of(a), divisor, "trunc") * 2;
  const at::Tensor quotient = estimate + not_less(a - estimate * divisor, divisor);
  return at::where(large, not_less(a, b).to(a.scalar_type()), quotient);
}

at::Tensor limit(ElementType type, at::Device device, bool greatest) {
  const auto options = at::TensorOptions().dtype(carrier_of(type)).device(device);
  const auto& info = graph::info(type);
  if (info.kind == graph::ElementKind::kFloat) {
    const double infinity = std::numeric_limits<double>::infinity();
    return at::full({}, greatest ? infinity : -infinity, options);
  }
  if (info.kind == graph::ElementKind::kBool) return at::full({}, greatest, options);
  if (type == ElementType::kUint64) return at::full({}, greatest ? std::int64_t{-1} : 0, options);
  if (info.kind == graph::ElementKind::kUnsigned) {
    return at::full({}, greatest ? (std::int64_t{1} << info.bits) - 1 : 0, options);
  }
  const std::int64_t most = kMost >> (64 - info.bits);
  return at::full({}, greatest ? most : -most - 1, options);
}

}  // namespace

at::Tensor ordered(const at::Tensor& values, ElementType type) {
  return type == ElementType::kUint64 ? values.bitwise_xor(at::Scalar(kLeast)) : values;
}

at::Tensor divide_integers(const at::Tensor& a, const at::Tensor& b, ElementType type) {
  if (type == ElementType::kUint64) return divide_unsigned(a, b);
  if (graph::info(type).kind == graph::ElementKind::kUnsigned) return at::div(a, b, "trunc");
  const at::Tensor minus_one = b == -1;
  return at::where(minus_one, a.neg(), at::div(a, b.masked_fill(minus_one, 1), "trunc"));
}

at::Tensor remainder_of_integers(const at::Tensor& a, const at::Tensor& b, ElementType type) {
  return a - divide_integers(a, b, type) * b;
}

at::Tensor integers_to_float(const at::Tensor& values, ElementType type, at::ScalarType to) {
  if (type != ElementType::kUint64) return values.to(to);
  // Half of the value, whose lowest bit remembers what was cut off, rounds as the value does.
  const at::Tensor half = half_of(values).bitwise_or(values.bitwise_and(1));
  return at::where(values < 0, half.to(to) * 2, values.to(to));
}

at::Tensor to_real(const TypedTensor& value) {
  if (graph::is_float(value.type)) return value.tensor;
  return integers_to_float(value.tensor, value.type, at::kDouble);
}

TypedTensor from_real(const at::Tensor& values, ElementType type) {
  if (is_small_float(type)) return {round_to_small_float(values, type), type};
  if (type == ElementType::kBool) return {values != 0, type};
  if (!graph::is_integer(type) || type == ElementType::kInt32) return {values.to(carrier_of(type)), type};
  if (type == ElementType::kUint64) {
    const double half = 0x1p63;
    const at::Tensor large = values >= half;
    const at::Tensor low = at::where(large, values - half, values).to(at::kLong);
    return {at::where(large, low.bitwise_xor(at::Scalar(kLeast)), low), type};
  }
  return wrapped(values.to(at::kLong), type);
}

at::Tensor least_of(ElementType type, at::Device device) { return limit(type, device, false); }
at::Tensor greatest_of(ElementType type, at::Device device) { return limit(type, device, true); }

}  // namespace crumb::libtorch
