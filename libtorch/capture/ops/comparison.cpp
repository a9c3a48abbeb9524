// Comparison, logic, bits, choosing by a mask.
#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

/// Both operands of a comparison in their common type; no operator orders bool.
std::pair<std::string, std::string> compared(Op& op, bool orders) {
  at::ScalarType type = op.common_type("self", "other");
  if (orders && type == at::kBool) type = at::kInt;
  return {op.operand("self", type), op.operand("other", type)};
}

void compare(Op& op, const char* name, bool negated = false) {
  const bool orders = std::string(name) != "Equal";
  const auto [a, b] = compared(op, orders);
  const std::string result = op.net.add(name, {a, b});
  op.set(negated ? op.net.add("Not", {result}) : result);
}

void equal(Op& op) { compare(op, "Equal"); }
void not_equal(Op& op) { compare(op, "Equal", true); }
void less(Op& op) { compare(op, "Less"); }
void less_or_equal(Op& op) { compare(op, "LessOrEqual"); }
void greater(Op& op) { compare(op, "Greater"); }
void greater_or_equal(Op& op) { compare(op, "GreaterOrEqual"); }

void logical(Op& op, const char* name) {
  op.set(op.net.add(name, {op.operand("self", at::kBool), op.operand("other", at::kBool)}));
}
void logical_and(Op& op) { logical(op, "And"); }
void logical_or(Op& op) { logical(op, "Or"); }
void logical_xor(Op& op) { logical(op, "Xor"); }
void logical_not(Op& op) { op.set(op.net.add("Not", {op.operand("self", at::kBool)})); }

void bitwise(Op& op, const char* of_bits, const char* of_bool) {
  op.set(op.net.add(op.result().type == at::kBool ? of_bool : of_bits, {op.self(), op.self("other")}));
}
void bitwise_and(Op& op) { bitwise(op, "BitwiseAnd", "And"); }
void bitwise_or(Op& op) { bitwise(op, "BitwiseOr", "Or"); }
void bitwise_xor(Op& op) { bitwise(op, "BitwiseXor", "Xor"); }
void bitwise_not(Op& op) {
  op.set(op.net.add(op.result().type == at::kBool ? "Not" : "BitwiseNot", {op.self()}));
}

void where(Op& op) {
  if (!op.has("self")) op.fail("without values it gives indices whose number depends on the data");
  op.set(op.net.add("Where", {op.operand("condition", at::kBool), op.self(), op.self("other")}));
}

void masked_fill(Op& op) {
  op.set(op.net.add("Where", {op.operand("mask", at::kBool), op.self("value"), op.self()}));
}

void isnan(Op& op) { op.set(op.net.add("IsNaN", {op.tensor("self")})); }
void isinf(Op& op) { op.set(op.net.add("IsInf", {op.tensor("self")})); }

constexpr ConversionRow kComparisonRows[] = {
    {"aten::eq", equal},
    {"aten::ne", not_equal},
    {"aten::lt", less},
    {"aten::le", less_or_equal},
    {"aten::gt", greater},
    {"aten::ge", greater_or_equal},
    {"aten::logical_and", logical_and},
    {"aten::logical_or", logical_or},
    {"aten::logical_xor", logical_xor},
    {"aten::logical_not", logical_not},
    {"aten::bitwise_and", bitwise_and},
    {"aten::bitwise_or", bitwise_or},
    {"aten::bitwise_xor", bitwise_xor},
    {"aten::bitwise_not", bitwise_not},
    {"aten::__and__", bitwise_and},
    {"aten::__or__", bitwise_or},
    {"aten::__xor__", bitwise_xor},
    {"aten::where", where},
    {"aten::masked_fill", masked_fill},
    {"aten::isnan", isnan},
    {"aten::isinf", isinf},
};

}  // namespace

std::span<const ConversionRow> comparison_conversions() { return kComparisonRows; }

}  // namespace crumb::libtorch
