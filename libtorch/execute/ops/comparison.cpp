// Comparison, logic, bits, and what chooses by them.
#include <ATen/ATen.h>

#include <limits>

#include "libtorch/execute/ops/broadcast.h"
#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/integers.h"

namespace crumb::libtorch {

at::Tensor second_input(const Call& call) {
  at::Tensor b = call.tensor(1);
  if (call.version() >= 7 || call.int_or("broadcast", 0) == 0 || !call.node().has("axis")) return b;
  const std::int64_t rank = call.tensor(0).dim();
  if (b.dim() == 0) return b;
  const std::int64_t axis = usual_axis(call, call.int_or("axis", 0), rank);
  for (std::int64_t i = axis + b.dim(); i < rank; ++i) b = b.unsqueeze(-1);
  return b;
}

namespace {

using graph::ElementType;

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Outputs comparison(const Call& call) {
  const ElementType type = call.type(0);
  return one(Function(ordered(call.tensor(0), type), ordered(second_input(call), type)), ElementType::kBool);
}

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Outputs logic(const Call& call) {
  return one(Function(call.tensor(0), second_input(call)), ElementType::kBool);
}

Outputs negation(const Call& call) { return one(call.tensor(0).logical_not(), ElementType::kBool); }

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Outputs bitwise(const Call& call) {
  return like_input(call, Function(call.tensor(0), call.tensor(1)));
}

Outputs bitwise_not(const Call& call) { return like_input(call, call.tensor(0).bitwise_not()); }

/// Shifts by the type's width and more leave nothing.
Outputs bit_shift(const Call& call) {
  const std::string direction = call.text_or("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    call.fail("expected the direction LEFT or RIGHT, found \"" + direction + "\"");
  }
  const std::int64_t bits = graph::info(call.type(0)).bits;
  const at::Tensor x = call.tensor(0).to(at::kLong), by = call.tensor(1).to(at::kLong);
  const at::Tensor valid = (by >= 0).logical_and(by < bits);
  const at::Tensor steps = by.masked_fill(valid.logical_not(), 0);
  at::Tensor shifted = x.bitwise_left_shift(steps);
  if (direction == "RIGHT") {
    // One step by hand clears the sign bit that a shift of int64 would pull in.
    const auto most = at::Scalar(std::numeric_limits<std::int64_t>::max());
    const at::Tensor halved = x.bitwise_right_shift(1).bitwise_and(most);
    shifted = at::where(steps == 0, x, halved.bitwise_right_shift((steps - 1).clamp_min(0)));
  }
  return like_input(call, at::where(valid, shifted, 0));
}

Outputs is_nan(const Call& call) { return one(call.tensor(0).isnan(), ElementType::kBool); }

Outputs is_inf(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const bool positive = call.int_or("detect_positive", 1) != 0;
  const bool negative = call.int_or("detect_negative", 1) != 0;
  if (positive && negative) return one(x.isinf(), ElementType::kBool);
  if (positive) return one(x.isposinf(), ElementType::kBool);
  if (negative) return one(x.isneginf(), ElementType::kBool);
  return one(at::zeros_like(x, x.options().dtype(at::kBool)), ElementType::kBool);
}

Outputs where(const Call& call) {
  return one(at::where(call.tensor(0), call.tensor(1), call.tensor(2)), call.type(1));
}

constexpr OperatorRow kComparisonRows[] = {
    {"Equal", comparison<at::eq>},
    {"Less", comparison<at::lt>},
    {"Greater", comparison<at::gt>},
    {"LessOrEqual", comparison<at::le>},
    {"GreaterOrEqual", comparison<at::ge>},
    {"And", logic<at::logical_and>},
    {"Or", logic<at::logical_or>},
    {"Xor", logic<at::logical_xor>},
    {"Not", negation},
    {"BitwiseAnd", bitwise<at::bitwise_and>},
    {"BitwiseOr", bitwise<at::bitwise_or>},
    {"BitwiseXor", bitwise<at::bitwise_xor>},
    {"BitwiseNot", bitwise_not},
    {"BitShift", bit_shift},
    {"IsNaN", is_nan},
    {"IsInf", is_inf},
    {"Where", where},
};

}  // namespace

std::span<const OperatorRow> comparison_operators() { return kComparisonRows; }

}  // namespace crumb::libtorch
