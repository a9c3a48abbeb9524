// Operators that make tensors out of attributes, shapes and types.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {
namespace {

using graph::Tensor;

Outputs constant(const Call& call) {
  const auto& attributes = call.node().attributes;
  const auto value = [&](const char* name) {
    return attributes.contains(name) ? &attributes.at(name) : nullptr;
  };
  if (const auto* tensor = value("value")) {
    if (const auto* held = std::get_if<Tensor>(tensor)) return {to_typed(*held)};
  }
  if (value("value_float")) return {to_typed(Tensor::scalar(call.float_or("value_float", 0)))};
  if (value("value_int")) return {to_typed(Tensor::scalar(call.int_or("value_int", 0)))};
  if (value("value_floats")) {
    const auto values = call.node().floats_or("value_floats", {});
    return {to_typed(Tensor::floats({static_cast<std::int64_t>(values.size())}, values))};
  }
  if (value("value_ints")) {
    const auto values = call.node().ints_or("value_ints", {});
    return {to_typed(Tensor::ints({static_cast<std::int64_t>(values.size())}, values))};
  }
  call.fail("expected an attribute value, value_float, value_floats, value_int or value_ints");
}

constexpr OperatorRow kRows[] = {
    {"Constant", constant},
};

}  // namespace

std::span<const OperatorRow> constant_operators() { return kRows; }

}  // namespace crumb::torch_ops
