// Functions of numbers: arithmetic, comparisons, Clip, Where and Cast. A result has the type that ONNX gives
// it and is rounded to that. There is no result where integers may have wrapped around, and for types whose
// arithmetic is not float32's.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "graph/facts/constant_operators.h"
#include "graph/strided_index.h"

namespace crumb::graph {
namespace {

constexpr double kMostWhole = 0x1p53;  // up to here float64 holds every whole number, and none stands for two

/// Returns a constant of this type, still without values and shape.
ConstantValue of_type(ElementType type) { return {.wide = is_wide(type), .whole = is_integer(type)}; }

bool is_computed_here(ElementType type) {
  return is_integer(type) || type == ElementType::kFloat || type == ElementType::kDouble ||
         type == ElementType::kBool;
}

bool is_exact(const ConstantValue& x) {
  return !x.whole || std::ranges::all_of(x.values, [](double v) { return std::fabs(v) < kMostWhole; });
}

/// Rounds in place; false where a number exceeds the integer type, or is unknown for it.
bool round_to(ElementType type, std::vector<double>& values) {
  if (type == ElementType::kFloat) {
    for (double& value : values) value = static_cast<float>(value);
  }
  if (!is_integer(type)) return true;
  const bool is_signed = info(type).kind == ElementKind::kSigned;
  const int bits = static_cast<int>(info(type).bits) - (is_signed ? 1 : 0);
  const double most = std::min(std::exp2(bits), kMostWhole) - 1;
  const double least = is_signed ? -std::min(std::exp2(bits), kMostWhole - 1) : 0;
  for (double& value : values) value = std::trunc(value);
  return std::ranges::all_of(values, [&](double v) { return v >= least && v <= most; });
}

template <class Function>
MadeConstant combined(ElementType type, const ConstantValue& a, const ConstantValue& b, Function f) {
  if (!is_exact(a) || !is_exact(b)) return {};
  ConstantValue made = of_type(type);
  auto shape = broadcast_shape(a.shape, b.shape);
  if (!shape) return {};
  made.shape = std::move(*shape);
  auto of_a = StridedIndex::broadcast(made.shape, a.shape),
       of_b = StridedIndex::broadcast(made.shape, b.shape);
  const auto count = count_elements(made.shape);
  if (!of_a || !of_b || !count.ok()) return {};
  // A result that grows only by broadcasting is no weight worth its memory.
  if (count.value() > static_cast<std::int64_t>(16 * (a.values.size() + b.values.size()))) return {};
  made.values.resize(static_cast<std::size_t>(count.value()));
  for (double& value : made.values) {
    value = f(a.values[of_a->at()], b.values[of_b->at()]);
    of_a->next();
    of_b->next();
  }
  return round_to(type, made.values) ? MadeConstant(std::move(made)) : MadeConstant();
}

template <class Function>
MadeConstant mapped(ElementType type, const ConstantValue& x, Function f) {
  if (!is_exact(x)) return {};
  ConstantValue made = of_type(type);
  made.shape = x.shape;
  made.values.reserve(x.values.size());
  for (const double value : x.values) made.values.push_back(f(value));
  return round_to(type, made.values) ? MadeConstant(std::move(made)) : MadeConstant();
}

MadeConstant clipped_constant(ElementType type, const Node& node, const ConstantInputs& in) {
  const double most = type == ElementType::kFloat    ? std::numeric_limits<float>::max()
                      : type == ElementType::kDouble ? std::numeric_limits<double>::max()
                                                     : INFINITY;
  bool known = true;
  const auto bound = [&](std::size_t i, const char* name, double otherwise) {
    if (node.has(name)) return static_cast<double>(node.float_or(name, 0));
    if (i >= in.size() || !in[i]) return otherwise;
    known = known && in[i]->values.size() == 1;
    return known ? in[i]->values[0] : otherwise;
  };
  const double low = bound(1, "min", -most), high = bound(2, "max", most);
  if (!known || std::isnan(low) || std::isnan(high)) return {};
  return mapped(type, *in[0], [&](double x) { return std::min(std::max(x, low), high); });
}

MadeConstant of_two(ElementType type, const std::string& op, const ConstantValue& a, const ConstantValue& b) {
  if (op == "Add") return combined(type, a, b, std::plus());
  if (op == "Sub") return combined(type, a, b, std::minus());
  if (op == "Mul") return combined(type, a, b, std::multiplies());
  if (op == "Div") return combined(type, a, b, std::divides<double>());
  if (op == "Pow") return combined(type, a, b, [](double x, double y) { return std::pow(x, y); });
  if (op == "Equal") return combined(type, a, b, std::equal_to());
  if (op == "Less") return combined(type, a, b, std::less());
  if (op == "LessOrEqual") return combined(type, a, b, std::less_equal());
  if (op == "Greater") return combined(type, a, b, std::greater());
  if (op == "GreaterOrEqual") return combined(type, a, b, std::greater_equal());
  if (op == "And") return combined(type, a, b, std::logical_and());
  if (op == "Or") return combined(type, a, b, std::logical_or());
  if (op == "Xor") return combined(type, a, b, std::not_equal_to());
  return {};
}

/// Returns whole-number remainders with the sign of the divisor, or with `fmod` that of the dividend. Nothing
/// where a divisor is zero.
MadeConstant remainders(ElementType type, const Node& node, const ConstantValue& a, const ConstantValue& b) {
  if (!is_integer(type) || std::ranges::find(b.values, 0.0) != b.values.end()) return {};
  const bool as_c = node.int_or("fmod", 0) != 0;
  return combined(type, a, b, [as_c](double x, double y) {
    const double left = std::fmod(x, y);
    return !as_c && left != 0 && (left < 0) != (y < 0) ? left + y : left;
  });
}

/// Returns Where for whole numbers: the sum of two tensors, one of which is zero at each element and the
/// other the chosen value.
MadeConstant chosen_constant(ElementType type, const ConstantInputs& in) {
  if (!is_integer(type) || in.size() != 3 || !in[1] || !in[2]) return {};
  const MadeConstant first =
      combined(type, *in[0], *in[1], [](double c, double x) { return c != 0 ? x : 0; });
  const MadeConstant second =
      combined(type, *in[0], *in[2], [](double c, double x) { return c != 0 ? 0 : x; });
  return first && second ? combined(type, *first, *second, std::plus()) : MadeConstant();
}

MadeConstant of_one(ElementType type, const std::string& op, const ConstantValue& x) {
  if (op == "Sqrt") return mapped(type, x, [](double v) { return std::sqrt(v); });
  if (op == "Neg") return mapped(type, x, std::negate());
  if (op == "Abs") return mapped(type, x, [](double v) { return std::fabs(v); });
  if (op == "Exp") return mapped(type, x, [](double v) { return std::exp(v); });
  if (op == "Reciprocal") return mapped(type, x, [](double v) { return 1 / v; });
  if (op == "Relu") return mapped(type, x, [](double v) { return v < 0 ? 0 : v; });
  if (op == "Floor") return mapped(type, x, [](double v) { return std::floor(v); });
  if (op == "Ceil") return mapped(type, x, [](double v) { return std::ceil(v); });
  if (op == "Round") return mapped(type, x, [](double v) { return std::nearbyint(v); });
  if (op == "Not") return mapped(type, x, std::logical_not());
  return {};
}

}  // namespace

MadeConstant cast_to(ElementType type, const ConstantValue& x) {
  if (!is_computed_here(type)) return {};
  if (type == ElementType::kBool) return mapped(type, x, [](double v) { return v != 0; });
  if (is_integer(type) || !is_exact(x)) return mapped(type, x, std::identity());
  ConstantValue made = x;  // and the levels with it
  made.wide = is_wide(type);
  made.whole = false;
  round_to(type, made.values);
  return made;
}

MadeConstant computed_by(ElementType type, const Node& node, const ConstantInputs& in) {
  if (!is_computed_here(type)) return {};
  if (node.op == "Clip") return clipped_constant(type, node, in);
  if (node.op == "Where") return chosen_constant(type, in);
  if (node.op == "Mod")
    return in.size() == 2 && in[1] ? remainders(type, node, *in[0], *in[1]) : MadeConstant();
  return in.size() >= 2 && in[1] ? of_two(type, node.op, *in[0], *in[1]) : of_one(type, node.op, *in[0]);
}

}  // namespace crumb::graph
