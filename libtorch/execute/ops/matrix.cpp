// MatMul, Gemm, Einsum, Det, cumulative sums.
#include <ATen/ATen.h>

#include <algorithm>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/integers.h"

namespace crumb::libtorch {
namespace {

/// Where products of integers are computed: LibTorch has them on the CPU only.
std::pair<at::Device, at::ScalarType> place_of(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  if (!graph::is_integer(call.type(0))) return {x.device(), x.scalar_type()};
  return {at::kCPU, at::kLong};
}

Outputs matmul(const Call& call) {
  const auto [device, type] = place_of(call);
  const at::Tensor a = call.tensor(0).to(device, type), b = call.tensor(1).to(device, type);
  return like_input(call, at::matmul(a, b).to(call.tensor(0).device()));
}

/// alpha * A * B + beta * C. Integers are multiplied exactly; alpha and beta then act in double.
Outputs gemm(const Call& call) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (call.tensor(i).dim() != 2) call.fail("expected two matrices, found " + text_of(call.in(i)));
  }
  const auto [device, type] = place_of(call);
  at::Tensor a = call.tensor(0).to(device, type), b = call.tensor(1).to(device, type);
  if (call.int_or("transA", 0) != 0) a = a.t();
  if (call.int_or("transB", 0) != 0) b = b.t();
  const double alpha = call.float_or("alpha", 1), beta = call.float_or("beta", 1);
  if (!graph::is_integer(call.type(0))) {
    if (call.has(2)) return like_input(call, at::addmm(call.tensor(2), a, b, beta, alpha));
    const at::Tensor product = at::mm(a, b);
    return like_input(call, alpha == 1 ? product : product * alpha);
  }
  at::Tensor sum = at::mm(a, b);
  const at::Tensor c = call.has(2) ? call.tensor(2).to(device, type) : at::zeros({}, sum.options());
  if (alpha == 1 && beta == 1) return like_input(call, (sum + c).to(call.tensor(0).device()));
  const at::Tensor real = integers_to_float(sum, call.type(0), at::kDouble) * alpha +
                          integers_to_float(c, call.type(0), at::kDouble) * beta;
  return {from_real(real.to(call.tensor(0).device()), call.type(0))};
}

Outputs einsum(const Call& call) {
  const auto [device, type] = place_of(call);
  std::vector<at::Tensor> operands;
  for (std::size_t i = 0; i < call.inputs(); ++i) operands.push_back(call.tensor(i).to(device, type));
  return like_input(call, at::einsum(call.text_or("equation", ""), operands).to(call.tensor(0).device()));
}

Outputs determinant(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const bool narrow = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  return like_input(call, at::linalg_det(narrow ? x.to(at::kFloat) : x));
}

/// `exclusive` shifts by one and begins with what adds, or multiplies, nothing.
Outputs cumulative(const Call& call, at::Tensor (*along)(const at::Tensor&, std::int64_t), double neutral) {
  at::Tensor x = call.tensor(0);
  const std::vector<std::int64_t> axes = call.ints(1);
  if (axes.size() != 1) call.fail("expected one axis, found " + text_of(call.in(1)));
  const std::int64_t axis = usual_axis(call, axes[0], x.dim());
  const std::int64_t size = x.size(axis);
  const bool reverse = call.int_or("reverse", 0) != 0;
  if (reverse) x = x.flip(axis);
  if (call.int_or("exclusive", 0) != 0 && size > 0) {
    x = at::cat({at::full_like(x.narrow(axis, 0, 1), neutral), x.narrow(axis, 0, size - 1)}, axis);
  }
  x = along(x, axis);
  return like_input(call, reverse ? x.flip(axis) : x);
}

Outputs cumulative_sum(const Call& call) {
  return cumulative(
      call, [](const at::Tensor& x, std::int64_t axis) { return at::cumsum(x, axis); }, 0);
}
Outputs cumulative_product(const Call& call) {
  return cumulative(
      call, [](const at::Tensor& x, std::int64_t axis) { return at::cumprod(x, axis); }, 1);
}

/// The triangle above (or below) a diagonal, of every matrix.
Outputs triangle(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  if (x.dim() < 2) call.fail("expected matrices, found " + text_of(call.in(0)));
  std::int64_t k = 0;
  if (call.has(1)) {
    const auto given = call.ints(1);
    if (given.size() != 1) call.fail("expected one diagonal, found " + text_of(call.in(1)));
    k = std::clamp(given[0], -x.size(-2) - 1, x.size(-1) + 1);
  }
  return like_input(call, call.int_or("upper", 1) != 0 ? at::triu(x, k) : at::tril(x, k));
}

constexpr OperatorRow kMatrixRows[] = {
    {"MatMul", matmul},         {"Gemm", gemm},
    {"Einsum", einsum},         {"Det", determinant},
    {"CumSum", cumulative_sum}, {"CumProd", cumulative_product},
    {"Trilu", triangle},
};

}  // namespace

std::span<const OperatorRow> matrix_operators() { return kMatrixRows; }

}  // namespace crumb::libtorch
