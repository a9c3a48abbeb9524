#include "libtorch/execute/ops/integer_products.h"

#include <ATen/ATen.h>

#include <cmath>

#include "libtorch/execute/ops/granularity.h"
#include "libtorch/execute/small_floats.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

/// float32 where sums of so many products of values with magnitudes up to the two largest stay whole numbers
/// that it holds, else double: both of 8-bit operands and less than 2^35 terms.
at::ScalarType accumulator(std::int64_t terms, double largest_left, double largest_right) {
  const double bound = static_cast<double>(terms) * largest_left * largest_right;
  return bound <= 0x1p24 ? at::kFloat : at::kDouble;
}

/// The most that the magnitude of (value - zero point) can be for a type.
double largest_magnitude(ElementType type) {
  if (!graph::is_integer(type)) return std::numeric_limits<double>::infinity();
  const auto [lo, hi] = integer_bounds(type);
  return static_cast<double>(hi - lo);
}

at::Tensor centred(const at::Tensor& values, const at::Tensor& zero, at::ScalarType type) {
  return zero.defined() ? values.to(type) - zero.to(type) : values.to(type);
}

at::Tensor matrix_product(const Call& call, std::size_t left, std::size_t right, const at::Tensor& left_zero,
                          const at::Tensor& right_zero) {
  const at::Tensor& a = call.tensor(left);
  const at::Tensor& b = call.tensor(right);
  if (a.dim() == 0 || b.dim() == 0) {
    call.fail("cannot multiply " + text_of(call.in(left)) + " by " + text_of(call.in(right)));
  }
  const at::ScalarType type =
      accumulator(a.size(-1), largest_magnitude(call.type(left)), largest_magnitude(call.type(right)));
  return at::matmul(centred(a, left_zero, type), centred(b, right_zero, type));
}

/// By way of the floating operator, which knows the attributes.
at::Tensor convolution(const Call& call, std::size_t x, std::size_t w, const at::Tensor& x_zero,
                       const at::Tensor& w_zero) {
  const at::Tensor& weight = call.tensor(w);
  const std::int64_t terms = weight.dim() == 0 || weight.size(0) == 0 ? 0 : weight.numel() / weight.size(0);
  const at::ScalarType type =
      accumulator(terms, largest_magnitude(call.type(x)), largest_magnitude(call.type(w)));
  graph::Node node = call.node();
  node.op = "Conv";
  const Kernel kernel = find_operator("Conv", graph::kOnnxDomain);
  if (!kernel) call.fail("the operator Conv is not supported");
  const std::vector<TypedTensor> inputs = {typed(centred(call.tensor(x), x_zero, type)),
                                           typed(centred(weight, w_zero, type))};
  return kernel(Call(node, inputs)).at(0).tensor;
}

/// Sums are kept modulo 2^32.
at::Tensor to_int32(const at::Tensor& sums) { return sums.to(at::kLong).to(at::kInt); }

/// round(sums * factor) + zero, saturated: the quotient is rounded first, as the standard's text has it.
Outputs requantized(const Call& call, const at::Tensor& sums, const at::Tensor& factor,
                    const at::Tensor& zero, ElementType type) {
  const at::Tensor values = sums.to(at::kDouble) * factor.to(at::kDouble);
  if (is_small_float(type)) {
    return one(round_to_small_float(values + zero.to(at::kDouble), type), type);
  }
  if (!graph::is_integer(type)) {
    call.fail("the output's zero point is " + std::string(graph::name_of(type)) + ", expected an integer");
  }
  const auto [lo, hi] = integer_bounds(type);
  const at::Tensor q = at::round(values) + zero.to(at::kDouble);
  return one(
      at::where(q > lo, q, static_cast<double>(lo)).clamp_max(static_cast<double>(hi)).to(carrier_of(type)),
      type);
}

/// Inputs 0 to 7 of the QLinear operators: a, its scale and zero point, b, the same, the output's two.
enum : std::size_t { kA, kAScale, kAZero, kB, kBScale, kBZero, kYScale, kYZero, kBias };

}  // namespace

std::pair<std::int64_t, std::int64_t> integer_bounds(ElementType type) {
  const graph::ElementTypeInfo& of = graph::info(type);
  const std::int64_t all = std::int64_t{1} << of.bits;
  if (of.kind == graph::ElementKind::kSigned) return {-all / 2, all / 2 - 1};
  return {0, all - 1};
}

Outputs matmul_integer(const Call& call) {
  const auto zero = [&](std::size_t i, Along along) {
    return call.has(i) ? beside_matrix(call, i, call.tensor(i - 2).dim(), along) : at::Tensor();
  };
  return one(to_int32(matrix_product(call, 0, 1, zero(2, Along::kRows), zero(3, Along::kColumns))),
             ElementType::kInt32);
}

Outputs conv_integer(const Call& call) {
  const std::int64_t rank = call.tensor(1).dim();
  const at::Tensor x_zero = call.has(2) ? beside_channels(call, 2, rank, 1) : at::Tensor();
  const at::Tensor w_zero = call.has(3) ? beside_channels(call, 3, rank, 0) : at::Tensor();
  return one(to_int32(convolution(call, 0, 1, x_zero, w_zero)), ElementType::kInt32);
}

Outputs quantized_matmul(const Call& call, const at::Tensor& sums) {
  const std::int64_t rank = std::max(call.tensor(kA).dim(), call.tensor(kB).dim());
  const auto rows = [&](std::size_t i) { return beside_matrix(call, i, rank, Along::kRows); };
  const at::Tensor factor =
      rows(kAScale) * beside_matrix(call, kBScale, rank, Along::kColumns) / rows(kYScale);
  return requantized(call, sums, factor, rows(kYZero), call.type(kYZero));
}

Outputs quantized_conv(const Call& call, const at::Tensor& sums) {
  const std::int64_t rank = call.tensor(kB).dim();
  const auto of_output = [&](std::size_t i) { return beside_channels(call, i, rank, 1); };
  const at::Tensor factor = of_output(kAScale) * of_output(kBScale) / of_output(kYScale);
  return requantized(call, to_int32(sums), factor, of_output(kYZero), call.type(kYZero));
}

Outputs qlinear_matmul(const Call& call) {
  const std::int64_t rank = std::max(call.tensor(kA).dim(), call.tensor(kB).dim());
  at::Tensor sums = matrix_product(call, kA, kB, beside_matrix(call, kAZero, rank, Along::kRows),
                                   beside_matrix(call, kBZero, rank, Along::kColumns));
  if (graph::is_integer(call.type(kA)) && graph::is_integer(call.type(kB))) sums = to_int32(sums);
  return quantized_matmul(call, sums);
}

Outputs qlinear_conv(const Call& call) {
  const std::int64_t rank = call.tensor(kB).dim();
  const auto of_output = [&](std::size_t i) { return beside_channels(call, i, rank, 1); };
  at::Tensor sums = convolution(call, kA, kB, of_output(kAZero), beside_channels(call, kBZero, rank, 0));
  if (call.has(kBias)) sums = sums.to(at::kDouble) + of_output(kBias).to(at::kDouble);
  return quantized_conv(call, sums);
}

}  // namespace crumb::libtorch
