// Tensors from nothing, other types, and what changes nothing.
#include "libtorch/capture/ops/families.h"
#include "libtorch/execute/typed_tensor.h"

namespace crumb::libtorch {
namespace {

/// As many of a value as came out, of the type that came out.
void filled(Op& op, const at::Scalar& value) {
  const Seen result = op.result();
  const at::ScalarType wide = value.isFloatingPoint() ? at::kDouble : at::kLong;
  const at::Tensor one = at::scalar_tensor(value, wide).to(result.type).reshape({1});
  op.set(op.net.add("ConstantOfShape", {op.net.sizes(result.sizes)},
                    {{"value", libtorch::to_constant(libtorch::typed(one))}}));
}
void zeros(Op& op) { filled(op, 0); }
void ones(Op& op) { filled(op, 1); }

std::string expanded(Op& op, const std::string& value) {
  return op.net.add("Expand", {value, op.net.sizes(op.result().sizes)});
}
void full(Op& op) { op.set(expanded(op, op.self("fill_value"))); }
void fill(Op& op) { op.set(expanded(op, op.self("value"))); }

/// Of whole numbers that may follow the batch, or of numbers that do not.
void arange(Op& op) {
  const Seen result = op.result();
  Network& net = op.net;
  const bool whole = !at::isFloatingType(result.type);
  if (result.sizes[0].fixed()) {
    const at::Scalar start = op.has("start") ? op.scalar("start") : at::Scalar(0);
    const at::Scalar step = op.has("step") ? op.scalar("step") : at::Scalar(1);
    return op.set(net.tensor(at::arange(start, op.scalar("end"), step, at::dtype(result.type))));
  }
  if (!whole) op.fail("numbers that are not whole, as many as follow the batch");
  const auto operand = [&](const char* name, std::int64_t otherwise) {
    return op.has(name) ? op.operand(name, at::kLong) : net.index(otherwise);
  };
  const std::string range = net.add("Range", {operand("start", 0), operand("end", 0), operand("step", 1)});
  op.set(result.type == at::kLong ? range : net.cast(range, result.type));
}

void linspace(Op& op) {
  op.set(op.net.tensor(
      at::linspace(op.scalar("start"), op.scalar("end"), op.integer("steps"), at::dtype(op.result().type))));
}

void eye(Op& op) {
  const Seen result = op.result();
  if (!result.sizes[0].fixed() || !result.sizes[1].fixed()) op.fail("a size that follows the batch");
  op.set(op.net.tensor(at::eye(result.sizes[0].first, result.sizes[1].first, at::dtype(result.type))));
}

void scalar_tensor(Op& op) { op.set(op.operand("s", op.result().type)); }
void number_to_tensor(Op& op) { op.set(op.operand("a", op.result().type)); }

void same(Op& op) { op.set(op.tensor("self")); }
void same_input(Op& op) { op.set(op.tensor("input")); }
void to_type(Op& op) { op.set(op.self()); }

constexpr ConversionRow kConstantRows[] = {
    {"aten::zeros", zeros},
    {"aten::zeros_like", zeros},
    {"aten::new_zeros", zeros},
    {"aten::zero", zeros},
    {"aten::empty", zeros},
    {"aten::empty_like", zeros},
    {"aten::ones", ones},
    {"aten::ones_like", ones},
    {"aten::new_ones", ones},
    {"aten::full", full},
    {"aten::full_like", full},
    {"aten::new_full", full},
    {"aten::fill", fill},
    {"aten::arange", arange},
    {"aten::linspace", linspace},
    {"aten::eye", eye},
    {"aten::scalar_tensor", scalar_tensor},
    {"prim::NumToTensor", number_to_tensor},
    {"aten::to", to_type},
    {"aten::type_as", to_type},
    {"aten::_to_copy", to_type},
    {"aten::contiguous", same},
    {"aten::clone", same},
    {"aten::detach", same},
    {"aten::alias", same},
    {"aten::lift_fresh", same},
    {"aten::lift", same},
    {"aten::positive", same},
    {"aten::requires_grad", same},
    {"aten::dropout", same_input},
    {"aten::feature_dropout", same_input},
    {"aten::alpha_dropout", same_input},
    {"aten::feature_alpha_dropout", same_input},
    {"aten::native_dropout", same_input},
};

}  // namespace

std::span<const ConversionRow> constant_conversions() { return kConstantRows; }

}  // namespace crumb::libtorch
