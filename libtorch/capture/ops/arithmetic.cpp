// Arithmetic: both operands as the result's type, as LibTorch promotes them.
#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

/// `value` times a number; itself where that is 1.
std::string times(Op& op, const std::string& value, const at::Scalar& factor) {
  if (factor.equal(1)) return value;
  return op.net.add("Mul", {value, op.net.scalar(factor, op.result().type)});
}

void add(Op& op) {
  const std::string right = times(op, op.self("other"), op.has("alpha") ? op.scalar("alpha") : 1);
  const char* name = op.result().type == at::kBool ? "Or" : "Add";
  op.set(op.net.add(name, {op.self(), right}));
}

void subtract(Op& op) {
  const std::string right = times(op, op.self("other"), op.has("alpha") ? op.scalar("alpha") : 1);
  op.set(op.net.add("Sub", {op.self(), right}));
}

void subtract_from(Op& op) {
  const std::string right = times(op, op.self(), op.has("alpha") ? op.scalar("alpha") : 1);
  op.set(op.net.add("Sub", {op.self("other"), right}));
}

void multiply(Op& op) {
  op.set(op.net.add(op.result().type == at::kBool ? "And" : "Mul", {op.self(), op.self("other")}));
}

std::string truncated(Op& op, const std::string& value) {
  return op.net.add("Mul", {op.net.add("Sign", {value}), op.net.add("Floor", {op.net.add("Abs", {value})})});
}

/// Of integers, towards minus infinity: the quotient less 1 where a remainder has another sign than the
/// divisor.
std::string floored_quotient(Op& op, const std::string& a, const std::string& b, at::ScalarType type) {
  Network& net = op.net;
  if (at::isFloatingType(type)) return net.add("Floor", {net.add("Div", {a, b})});
  const std::string quotient = net.add("Div", {a, b}), zero = net.scalar(0, type);
  const std::string rest = net.add("Sub", {a, net.add("Mul", {quotient, b})});
  const std::string differ = net.add("Xor", {net.add("Less", {rest, zero}), net.add("Less", {b, zero})});
  const std::string uneven = net.add("Not", {net.add("Equal", {rest, zero})});
  return net.add("Sub", {quotient, net.cast(net.add("And", {differ, uneven}), type)});
}

void divide(Op& op) {
  const std::string mode = op.has("rounding_mode") ? op.text("rounding_mode") : "";
  const std::string a = op.self(), b = op.self("other");
  if (mode == "floor") return op.set(floored_quotient(op, a, b, op.result().type));
  const std::string quotient = op.net.add("Div", {a, b});
  op.set(mode == "trunc" && at::isFloatingType(op.result().type) ? truncated(op, quotient) : quotient);
}

void floor_divide(Op& op) { op.set(floored_quotient(op, op.self(), op.self("other"), op.result().type)); }

void remainder(Op& op) {
  const std::string a = op.self(), b = op.self("other");
  if (!at::isFloatingType(op.result().type)) return op.set(op.net.add("Mod", {a, b}));
  op.set(op.net.add("Sub", {a, op.net.add("Mul", {op.net.add("Floor", {op.net.add("Div", {a, b})}), b})}));
}

void fmod(Op& op) { op.set(op.net.add("Mod", {op.self(), op.self("other")}, {{"fmod", std::int64_t{1}}})); }

void power(Op& op) { op.set(op.net.add("Pow", {op.self(), op.self("exponent")})); }

template <std::size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&from)[N]) { std::copy_n(from, N, text); }  // NOLINT: a literal is a name
};

/// Operators of one operand that both know.
template <Name name>
void unary(Op& op) {
  op.set(op.net.add(name.text, {op.self()}));
}

/// Of two operands, `other` the second.
template <Name name>
void binary(Op& op) {
  op.set(op.net.add(name.text, {op.self(), op.self("other")}));
}

void rsqrt(Op& op) { op.set(op.net.add("Reciprocal", {op.net.add("Sqrt", {op.self()})})); }
void square(Op& op) {
  const std::string x = op.self();
  op.set(op.net.add("Mul", {x, x}));
}
void truncate(Op& op) { op.set(at::isFloatingType(op.result().type) ? truncated(op, op.self()) : op.self()); }
void log1p(Op& op) {
  op.set(op.net.add("Log", {op.net.add("Add", {op.self(), op.net.scalar(1, op.result().type)})}));
}
void expm1(Op& op) {
  op.set(op.net.add("Sub", {op.net.add("Exp", {op.self()}), op.net.scalar(1, op.result().type)}));
}
void log2(Op& op) { op.set(times(op, op.net.add("Log", {op.self()}), 1.4426950408889634)); }
void log10(Op& op) { op.set(times(op, op.net.add("Log", {op.self()}), 0.4342944819032518)); }
void exp2(Op& op) { op.set(op.net.add("Exp", {times(op, op.self(), 0.6931471805599453)})); }
void erfc(Op& op) {
  op.set(op.net.add("Sub", {op.net.scalar(1, op.result().type), op.net.add("Erf", {op.self()})}));
}

void clamp(Op& op) {
  std::string x = op.self();
  const bool tensors = (op.has("min") && op.is_tensor("min")) || (op.has("max") && op.is_tensor("max"));
  if (tensors) {
    if (op.has("min")) x = op.net.add("Max", {x, op.self("min")});
    if (op.has("max")) x = op.net.add("Min", {x, op.self("max")});
    return op.set(x);
  }
  Names inputs = {x, op.has("min") ? op.self("min") : ""};
  if (op.has("max")) inputs.push_back(op.self("max"));
  op.set(op.net.add("Clip", inputs));
}
void clamp_min(Op& op) { op.set(op.net.add("Max", {op.self(), op.self("min")})); }
void clamp_max(Op& op) { op.set(op.net.add("Min", {op.self(), op.self("max")})); }

void addcmul(Op& op) {
  const std::string product = op.net.add("Mul", {op.self("tensor1"), op.self("tensor2")});
  op.set(op.net.add("Add", {op.self(), times(op, product, op.scalar("value"))}));
}
void addcdiv(Op& op) {
  const std::string quotient = op.net.add("Div", {op.self("tensor1"), op.self("tensor2")});
  op.set(op.net.add("Add", {op.self(), times(op, quotient, op.scalar("value"))}));
}
void lerp(Op& op) {
  const std::string a = op.self(), way = op.net.add("Sub", {op.self("end"), a});
  op.set(op.net.add("Add", {a, op.net.add("Mul", {op.self("weight"), way})}));
}

constexpr ConversionRow kArithmeticRows[] = {
    {"aten::add", add},
    {"aten::sub", subtract},
    {"aten::rsub", subtract_from},
    {"aten::mul", multiply},
    {"aten::div", divide},
    {"aten::true_divide", divide},
    {"aten::floor_divide", floor_divide},
    {"aten::remainder", remainder},
    {"aten::fmod", fmod},
    {"aten::pow", power},
    {"aten::maximum", binary<"Max">},
    {"aten::minimum", binary<"Min">},
    {"aten::fmax", binary<"Max">},
    {"aten::fmin", binary<"Min">},
    {"aten::neg", unary<"Neg">},
    {"aten::abs", unary<"Abs">},
    {"aten::sign", unary<"Sign">},
    {"aten::exp", unary<"Exp">},
    {"aten::log", unary<"Log">},
    {"aten::sqrt", unary<"Sqrt">},
    {"aten::reciprocal", unary<"Reciprocal">},
    {"aten::erf", unary<"Erf">},
    {"aten::sin", unary<"Sin">},
    {"aten::cos", unary<"Cos">},
    {"aten::tan", unary<"Tan">},
    {"aten::asin", unary<"Asin">},
    {"aten::acos", unary<"Acos">},
    {"aten::atan", unary<"Atan">},
    {"aten::sinh", unary<"Sinh">},
    {"aten::cosh", unary<"Cosh">},
    {"aten::asinh", unary<"Asinh">},
    {"aten::acosh", unary<"Acosh">},
    {"aten::atanh", unary<"Atanh">},
    {"aten::floor", unary<"Floor">},
    {"aten::ceil", unary<"Ceil">},
    {"aten::round", unary<"Round">},
    {"aten::trunc", truncate},
    {"aten::fix", truncate},
    {"aten::rsqrt", rsqrt},
    {"aten::square", square},
    {"aten::log1p", log1p},
    {"aten::log2", log2},
    {"aten::log10", log10},
    {"aten::expm1", expm1},
    {"aten::exp2", exp2},
    {"aten::erfc", erfc},
    {"aten::clamp", clamp},
    {"aten::clip", clamp},
    {"aten::clamp_min", clamp_min},
    {"aten::clamp_max", clamp_max},
    {"aten::addcmul", addcmul},
    {"aten::addcdiv", addcdiv},
    {"aten::lerp", lerp},
};

}  // namespace

std::span<const ConversionRow> arithmetic_conversions() { return kArithmeticRows; }

}  // namespace crumb::libtorch
