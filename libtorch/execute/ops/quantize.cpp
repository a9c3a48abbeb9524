// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, and the table of the standard's quantized
// operators.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/granularity.h"
#include "libtorch/execute/ops/integer_products.h"
#include "libtorch/execute/ops/not_finite.h"
#include "libtorch/execute/ops/quantizer_loop.h"
#include "libtorch/execute/ops/straight_through.h"
#include "libtorch/execute/small_floats.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

/// Of these attributes, 0 is the default (ONNX 21 and up).
ElementType type_unless_0(const Call& call, const char* name, ElementType otherwise) {
  const std::int64_t number = call.int_or(name, 0);
  if (number == 0) return otherwise;
  const auto type = graph::element_type_of(number);
  if (!type) call.fail(std::string(name) + " is " + std::to_string(number) + ", which is no element type");
  return *type;
}

/// The type in which x is divided by its scale: the attribute's, else the scale's. A float8e8m0 scale, a
/// power of two, is one of x's own precision; integers are divided as doubles.
at::ScalarType division_type(const Call& call) {
  ElementType type = type_unless_0(call, "precision", call.type(1));
  if (type == ElementType::kFloat8E8M0) type = call.type(0);
  if (graph::is_float(type)) return carrier_of(type);
  return call.tensor(0).is_floating_point() ? call.tensor(0).scalar_type() : at::kDouble;
}

ElementType quantized_type(const Call& call) {
  const ElementType wanted = type_unless_0(call, "output_dtype", ElementType::kUnknown);
  if (!call.has(2)) return wanted == ElementType::kUnknown ? ElementType::kUint8 : wanted;
  if (wanted != ElementType::kUnknown && wanted != call.type(2)) {
    call.fail("output_dtype is " + std::string(graph::name_of(wanted)) + ", but the zero point is " +
              std::string(graph::name_of(call.type(2))));
  }
  return call.type(2);
}

Outputs to_integers(const Call& call, const at::Tensor& scale, ElementType type) {
  const unsigned bits = graph::info(type).bits;
  if (!graph::is_integer(type) || bits > 16) {
    call.fail("cannot quantize to " + std::string(graph::name_of(type)));
  }
  const auto [lo, hi] = integer_bounds(type);
  const at::ScalarType precision = division_type(call);
  at::Tensor zero = call.has(2) ? beside_input(call, 2) : at::zeros({});
  zero = zero.to(scale.device(), at::kFloat);
  const at::Tensor x = call.tensor(0).detach().to(precision), by = scale.detach().to(precision);
  // float32 holds every sum that is not out of the range anyway.
  if (precision == at::kFloat) {
    if (const auto rows = row_parameters<2>(x, {by, zero})) {
      const auto quantize = [lo = static_cast<float>(lo), hi = static_cast<float>(hi)](
                                float v, const std::array<float, 2>& p) CRUMB_LANE {
        float q = lane::half_even(v / p[0]) + p[1];
        q = q > lo ? q : lo;  // NaN too
        return q < hi ? q : hi;
      };
      return one(map_rows(x, *rows, quantize).to(carrier_of(type)), type);
    }
  }
  at::Tensor q = at::round(x / by);
  q = q.to(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat) + zero;
  q = at::where(q > lo, q, static_cast<double>(lo)).clamp_max(static_cast<double>(hi));
  return one(q.to(carrier_of(type)), type);
}

Outputs quantize_linear(const Call& call) {
  const ElementType type = quantized_type(call);
  const at::Tensor scale = beside_input(call, 1);
  if (!is_small_float(type)) {
    note_not_finite(call, true, true);
    return to_integers(call, scale, type);
  }
  if (type == ElementType::kFloat8E8M0) call.fail("cannot quantize to float8e8m0");
  const at::ScalarType precision = division_type(call);
  at::Tensor u = call.tensor(0).to(precision) / scale.to(precision);
  if (type == ElementType::kFloat4E2M1)
    u = u + (call.has(2) ? beside_input(call, 2).to(precision) : at::zeros({}, u.options()));
  at::Tensor made = round_to_small_float(u.detach(), type, {.saturate = call.int_or("saturate", 1) != 0});
  const at::Tensor pass = differentiated(u) ? u.abs() <= largest_small_float(type) : at::Tensor();
  return one(straight_through(u, std::move(made), pass), type);
}

Outputs dequantize_linear(const Call& call) {
  at::Tensor x = call.tensor(0).to(at::kFloat);
  if (call.has(2)) {
    if (call.type(2) != call.type(0)) {
      call.fail("the input is " + text_of(call.in(0)) + ", but the zero point is " + text_of(call.in(2)));
    }
    x = x - beside_input(call, 2).to(at::kFloat);
  }
  const ElementType scaled = call.type(1) == ElementType::kFloat8E8M0 ? ElementType::kFloat : call.type(1);
  const ElementType type = type_unless_0(call, "output_dtype", scaled);
  if (!graph::is_float(type) || is_small_float(type)) {
    call.fail("cannot dequantize to " + std::string(graph::name_of(type)));
  }
  return one((x * beside_input(call, 1).to(at::kFloat)).to(carrier_of(type)), type);
}

/// To uint8, with scale and zero point from the range that the values and 0 take.
Outputs dynamic_quantize_linear(const Call& call) {
  const at::Tensor x = call.tensor(0).detach().to(at::kFloat);
  const at::Tensor none = at::zeros({}, x.options());
  const bool empty = x.numel() == 0;
  const at::Tensor most = empty ? none : x.max().clamp_min(0), least = empty ? none : x.min().clamp_max(0);
  const at::Tensor range = at::where(most == least, at::ones({}, x.options()), most - least);
  const at::Tensor scale = range / 255.0;
  const at::Tensor zero = at::round((none - least / scale).clamp(0, 255));
  const at::Tensor y = (at::round(x / scale) + zero).clamp(0, 255).to(at::kByte);
  return {{y, ElementType::kUint8}, {scale, ElementType::kFloat}, {zero.to(at::kByte), ElementType::kUint8}};
}

constexpr OperatorRow kQuantizeRows[] = {
    {"QuantizeLinear", quantize_linear},
    {"DequantizeLinear", dequantize_linear},
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"MatMulInteger", matmul_integer},
    {"ConvInteger", conv_integer},
    {"QLinearMatMul", qlinear_matmul},
    {"QLinearConv", qlinear_conv},
};

}  // namespace

std::span<const OperatorRow> quantize_operators() { return kQuantizeRows; }

}  // namespace crumb::libtorch
