// Arithmetic, with ONNX's broadcasting.
#include <ATen/ATen.h>

#include <limits>

#include "libtorch/execute/ops/broadcast.h"
#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/integers.h"
#include "libtorch/execute/ops/widen.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Outputs arithmetic(const Call& call) {
  return like_input(call, Function(call.tensor(0), second_input(call)));
}

template <at::Tensor (*Function)(const at::Tensor&)>
Outputs of_one(const Call& call) {
  return like_input(call, Function(call.tensor(0)));
}

/// Functions of real numbers; integers, where an old operator set takes them, are truncated afterwards.
template <at::Tensor (*Function)(const at::Tensor&)>
Outputs real_function(const Call& call) {
  return {from_real(Function(to_real(call.in(0))), call.type(0))};
}

at::Tensor plus(const at::Tensor& a, const at::Tensor& b) { return a + b; }
at::Tensor minus(const at::Tensor& a, const at::Tensor& b) { return a - b; }
at::Tensor times(const at::Tensor& a, const at::Tensor& b) { return a * b; }

Outputs quotient(const Call& call) {
  const at::Tensor &a = call.tensor(0), b = second_input(call);
  return like_input(call, graph::is_integer(call.type(0)) ? divide_integers(a, b, call.type(0)) : a / b);
}

/// fmod: the sign of the dividend; else that of the divisor, as Python has it.
Outputs modulo(const Call& call) {
  const at::Tensor &a = call.tensor(0), &b = call.tensor(1);
  const ElementType type = call.type(0);
  const bool fmod = call.int_or("fmod", 0) != 0;
  if (!graph::is_integer(type)) return like_input(call, fmod ? at::fmod(a, b) : at::remainder(a, b));
  at::Tensor rest = remainder_of_integers(a, b, type);
  if (!fmod && graph::info(type).kind == graph::ElementKind::kSigned) {
    rest = at::where((rest != 0).logical_and((rest < 0) != (b < 0)), rest + b, rest);
  }
  return like_input(call, rest);
}

/// The result has the base's type; a fractional exponent of an integer is computed in double and truncated.
Outputs power(const Call& call) {
  const at::Tensor &base = call.tensor(0), exponent = second_input(call);
  const bool real_base = graph::is_float(call.type(0)), real_exponent = graph::is_float(call.type(1));
  if (real_base && real_exponent) {
    return like_input(call, at::pow(base, exponent.to(base.scalar_type())));
  }
  if (!real_base && !real_exponent && call.type(0) != ElementType::kUint64 &&
      call.type(1) != ElementType::kUint64) {
    return like_input(call, at::pow(base.to(at::kLong), exponent.to(at::kLong)));
  }
  const at::Tensor result =
      at::pow(to_real(call.in(0)).to(at::kDouble), to_real({exponent, call.type(1)}).to(at::kDouble));
  return {from_real(result, call.type(0))};
}

Outputs absolute(const Call& call) {
  const bool is_unsigned = graph::info(call.type(0)).kind == graph::ElementKind::kUnsigned;
  return like_input(call, is_unsigned ? call.tensor(0) : at::abs(call.tensor(0)));
}

Outputs sign(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  if (call.type(0) == ElementType::kUint64) return like_input(call, x != 0);
  if (!x.is_floating_point()) return like_input(call, at::sign(x));
  return like_input(call, at::where(x.isnan(), x, at::sign(x)));
}

/// Inputs of a variadic operator, folded from the left.
template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
at::Tensor folded(const Call& call) {
  at::Tensor result = ordered(call.tensor(0), call.type(0));
  for (std::size_t i = 1; i < call.inputs(); ++i) {
    result = Function(result, ordered(call.tensor(i), call.type(i)));
  }
  return ordered(result, call.type(0));
}

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Outputs extreme(const Call& call) {
  return like_input(call, folded<Function>(call));
}

at::Tensor sum_of_inputs(const Call& call) {
  at::Tensor result = widened(call.tensor(0));
  for (std::size_t i = 1; i < call.inputs(); ++i) result = result + widened(call.tensor(i));
  return result;
}
Outputs sum(const Call& call) { return like_input(call, sum_of_inputs(call)); }
Outputs mean(const Call& call) {
  return like_input(call, sum_of_inputs(call) / static_cast<double>(call.inputs()));
}

/// A bound of Clip: an input since operator set 11; before an attribute, which operator set 6 gave float's
/// largest numbers as defaults.
std::optional<at::Tensor> bound(const Call& call, std::size_t input, const char* name) {
  const at::Tensor& x = call.tensor(0);
  if (call.version() < 11) {
    if (call.version() < 6 && !call.node().has(name)) return std::nullopt;
    const float otherwise = (input == 1 ? -1 : 1) * std::numeric_limits<float>::max();
    return at::full({}, static_cast<double>(call.float_or(name, otherwise)), x.options().dtype(at::kDouble))
        .to(x.scalar_type());
  }
  if (!call.has(input)) return std::nullopt;
  const at::Tensor& value = call.tensor(input);
  if (value.numel() != 1) {
    call.fail("expected one number as " + std::string(name) + ", found " + text_of(call.in(input)));
  }
  return ordered(value.reshape({}), call.type(0)).to(x.device());
}

/// min(max, max(x, min)): the upper bound wins where they cross.
Outputs clip(const Call& call) {
  const auto low = bound(call, 1, "min"), high = bound(call, 2, "max");
  if (!low && !high) return {call.in(0)};
  return like_input(call, ordered(at::clamp(ordered(call.tensor(0), call.type(0)), low, high), call.type(0)));
}

constexpr OperatorRow kElementwiseRows[] = {
    {"Add", arithmetic<plus>},
    {"Sub", arithmetic<minus>},
    {"Mul", arithmetic<times>},
    {"Div", quotient},
    {"Mod", modulo},
    {"Pow", power},
    {"Neg", of_one<at::neg>},
    {"Abs", absolute},
    {"Sign", sign},
    {"Sqrt", real_function<at::sqrt>},
    {"Reciprocal", real_function<at::reciprocal>},
    {"Exp", real_function<at::exp>},
    {"Log", real_function<at::log>},
    {"Floor", real_function<at::floor>},
    {"Ceil", real_function<at::ceil>},
    {"Round", real_function<at::round>},
    {"Erf", real_function<at::erf>},
    {"Sin", real_function<at::sin>},
    {"Cos", real_function<at::cos>},
    {"Tan", real_function<at::tan>},
    {"Asin", real_function<at::asin>},
    {"Acos", real_function<at::acos>},
    {"Atan", real_function<at::atan>},
    {"Sinh", real_function<at::sinh>},
    {"Cosh", real_function<at::cosh>},
    {"Asinh", real_function<at::asinh>},
    {"Acosh", real_function<at::acosh>},
    {"Atanh", real_function<at::atanh>},
    {"Min", extreme<at::minimum>},
    {"Max", extreme<at::maximum>},
    {"Sum", sum},
    {"Mean", mean},
    {"Clip", clip},
};

}  // namespace

std::span<const OperatorRow> elementwise_operators() { return kElementwiseRows; }

}  // namespace crumb::libtorch
