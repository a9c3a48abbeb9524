// Operators that make tensors out of attributes, shapes and types, and the choice between branches.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "graph/choose.h"
#include "libtorch/execute/ops/cast.h"
#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/integers.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;
using graph::Tensor;

Outputs constant(const Call& call) {
  if (const auto made = graph::constant_of(call.node())) return {to_typed(*made)};
  if (call.node().has("value_string") || call.node().has("value_strings")) {
    call.fail("strings are not supported");
  }
  call.fail("expected an attribute value, value_float, value_floats, value_int or value_ints");
}

Outputs constant_of_shape(const Call& call) {
  const std::vector<std::int64_t> shape = call.ints(0);
  for (const std::int64_t size : shape) {
    if (size < 0) call.fail("expected sizes of 0 and more, found " + graph::text_of(shape));
  }
  TypedTensor value = to_typed(Tensor::scalar(0.0F));
  const auto& attributes = call.node().attributes;
  if (const auto found = attributes.find("value"); found != attributes.end()) {
    const auto* held = std::get_if<Tensor>(&found->second);
    if (!held || held->size() != 1) call.fail("expected a tensor of one number as value");
    value = to_typed(*held);
  }
  return one(value.tensor.reshape({}).to(call.tensor(0).device()).expand(shape).contiguous(), value.type);
}

/// Sizes from start up to end, both cut to the axes there are.
Outputs shape(const Call& call) {
  const at::IntArrayRef sizes = call.tensor(0).sizes();
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const auto cut = [&](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const std::int64_t start = cut(call.int_or("start", 0)), end = cut(call.int_or("end", rank));
  std::vector<std::int64_t> found;
  for (std::int64_t axis = start; axis < end; ++axis) found.push_back(sizes[static_cast<std::size_t>(axis)]);
  return {to_typed(Tensor::ints({static_cast<std::int64_t>(found.size())}, found), call.tensor(0).device())};
}

Outputs size(const Call& call) {
  return {to_typed(Tensor::scalar(call.tensor(0).numel()), call.tensor(0).device())};
}

/// start + i * delta: integers exactly, 16-bit floats through float, as they are asked to be by default.
Outputs range(const Call& call) {
  const ElementType type = call.type(0);
  const auto options = call.tensor(0).options();
  for (std::size_t i = 0; i < 3; ++i) {
    if (call.tensor(i).numel() != 1) call.fail("expected three numbers, found " + text_of(call.in(i)));
  }
  if (graph::is_integer(type)) {
    const std::int64_t start = call.ints(0)[0], limit = call.ints(1)[0], delta = call.ints(2)[0];
    if (delta == 0) call.fail("expected a delta other than 0");
    // The distance is counted without a sign, since it may need 64 bits.
    const bool up = delta > 0;
    const bool any = up ? start < limit : start > limit;
    const auto from = static_cast<std::uint64_t>(start), to = static_cast<std::uint64_t>(limit);
    const std::uint64_t distance = up ? to - from : from - to;
    const std::uint64_t step = up ? static_cast<std::uint64_t>(delta) : 0 - static_cast<std::uint64_t>(delta);
    const std::uint64_t count = any ? (distance - 1) / step + 1 : 0;
    if (count > std::uint64_t{1} << 48) call.fail("too many numbers: " + std::to_string(count));
    const at::Tensor index = at::arange(static_cast<std::int64_t>(count), options.dtype(at::kLong));
    return {wrapped(index * delta + start, type)};
  }
  const double start = call.tensor(0).item<double>(), limit = call.tensor(1).item<double>(),
               delta = call.tensor(2).item<double>();
  const double count = std::max(std::ceil((limit - start) / delta), 0.0);
  if (delta == 0 || !(count <= 0x1p48)) {
    call.fail("no numbers from " + std::to_string(start) + " to " + std::to_string(limit) + " by steps of " +
              std::to_string(delta));
  }
  const at::Tensor index = at::arange(static_cast<std::int64_t>(count), options.dtype(at::kDouble));
  return {from_real(index * delta + start, type)};
}

Outputs eye_like(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  if (x.dim() != 2) call.fail("expected a matrix, found " + text_of(call.in(0)));
  const at::Tensor eye = at::zeros(x.sizes(), x.options().dtype(at::kBool));
  const std::int64_t k = call.int_or("k", 0);
  if (k > -x.size(0) && k < x.size(1)) eye.diagonal(k).fill_(true);
  return {cast({eye, ElementType::kBool}, type_attribute(call, "dtype", call.type(0)))};
}

/// The plan computes the values of one side alone (graph/choose.h).
Outputs side_of_choose(const Call& call) {
  if (!graph::is_choose(call.node())) call.fail("expected a condition, and two values for each output");
  const at::Tensor& condition = call.tensor(0);
  if (condition.numel() != 1) call.fail("expected one condition, found " + std::to_string(condition.numel()));
  const std::size_t first = condition.item<bool>() ? 1 : 1 + call.outputs();
  Outputs made;
  for (std::size_t i = 0; i < call.outputs(); ++i) made.push_back(call.in(first + i));
  return made;
}

constexpr OperatorRow kConstantsRows[] = {
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"Shape", shape},
    {"Size", size},
    {"Range", range},
    {"EyeLike", eye_like},
    {graph::kChoose, side_of_choose, graph::kControlDomain},
};

}  // namespace

std::span<const OperatorRow> constant_operators() { return kConstantsRows; }

}  // namespace crumb::libtorch
