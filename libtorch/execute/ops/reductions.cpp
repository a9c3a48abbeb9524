// Reduce*, ArgMax, TopK.
#include <ATen/ATen.h>

#include <algorithm>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/integers.h"
#include "libtorch/execute/ops/widen.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

/// What a reduction runs over.
struct Axes {
  std::vector<std::int64_t> axes;  ///< from the front, ascending, each once; none: nothing is reduced
  bool keep = true;
};

/// `axes` was an attribute before operator set 18 (13 for ReduceSum).
Axes axes_of(const Call& call) {
  const std::int64_t rank = call.tensor(0).dim();
  Axes found{.keep = call.int_or("keepdims", 1) != 0};
  for (const std::int64_t axis : call.ints(1, "axes").value_or(std::vector<std::int64_t>())) {
    found.axes.push_back(usual_axis(call, axis, rank));
  }
  std::sort(found.axes.begin(), found.axes.end());
  if (std::adjacent_find(found.axes.begin(), found.axes.end()) != found.axes.end()) {
    call.fail("expected every axis once, found " + graph::text_of(found.axes));
  }
  if (found.axes.empty() && call.int_or("noop_with_empty_axes", 0) == 0) {
    for (std::int64_t axis = 0; axis < rank; ++axis) found.axes.push_back(axis);
  }
  return found;
}

/// A rank of 0, or noop_with_empty_axes: every element is a set of its own. ATen would take an empty list of
/// axes for all of them.
bool is_noop(const Axes& how) { return how.axes.empty(); }

at::Tensor sum_over(const at::Tensor& x, const Axes& how) {
  return is_noop(how) ? x : at::sum(x, how.axes, how.keep);
}

at::Tensor real_mean(const at::Tensor& x, const Axes& how) {
  return is_noop(how) ? x : at::mean(x, how.axes, how.keep);
}
at::Tensor real_l2(const at::Tensor& x, const Axes& how) {
  return is_noop(how) ? x.abs() : at::linalg_vector_norm(x, 2, how.axes, how.keep);
}
at::Tensor real_log_sum(const at::Tensor& x, const Axes& how) { return sum_over(x, how).log(); }
at::Tensor real_log_sum_exp(const at::Tensor& x, const Axes& how) {
  return is_noop(how) ? x : at::logsumexp(x, how.axes, how.keep);
}
at::Tensor sum_square(const at::Tensor& x, const Axes& how) { return sum_over(x * x, how); }

using Reduction = at::Tensor (*)(const at::Tensor&, const Axes&);

/// Integers are reduced as double and truncated.
template <Reduction Function>
Outputs real_reduction(const Call& call) {
  return {from_real(Function(widened(to_real(call.in(0))), axes_of(call)), call.type(0))};
}

/// Integers are reduced in 64 bits, which wrap around as the type does.
template <Reduction Function>
Outputs exact_reduction(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const bool real = graph::is_float(call.type(0));
  return like_input(call, Function(real ? widened(x) : x.to(at::kLong), axes_of(call)));
}

at::Tensor absolute_sum(const at::Tensor& x, const Axes& how) { return sum_over(x.abs(), how); }

Outputs l1(const Call& call) {
  const bool is_unsigned = graph::info(call.type(0)).kind == graph::ElementKind::kUnsigned;
  return is_unsigned ? exact_reduction<sum_over>(call) : exact_reduction<absolute_sum>(call);
}

at::Tensor product_over(const at::Tensor& x, const Axes& how) {
  at::Tensor result = x;
  for (auto axis = how.axes.rbegin(); axis != how.axes.rend(); ++axis) result = result.prod(*axis, how.keep);
  return result;
}

/// The mean of integers is truncated towards zero.
Outputs mean(const Call& call) {
  if (!graph::is_integer(call.type(0))) return real_reduction<real_mean>(call);
  const Axes how = axes_of(call);
  const at::Tensor sum = sum_over(call.tensor(0).to(at::kLong), how);
  std::int64_t count = 1;
  for (const std::int64_t axis : how.axes) count *= call.tensor(0).size(axis);
  if (count == 0 && sum.numel() > 0) call.fail("the mean of no integers, found " + text_of(call.in(0)));
  return like_input(call, divide_integers(sum, at::full({}, std::max<std::int64_t>(count, 1), sum.options()),
                                          call.type(0) == ElementType::kUint64 ? ElementType::kUint64
                                                                               : ElementType::kInt64));
}

template <bool kGreatest>
Outputs extreme(const Call& call) {
  const ElementType type = call.type(0);
  const Axes how = axes_of(call);
  if (is_noop(how)) return {call.in(0)};
  const at::Tensor& x = call.tensor(0);
  std::int64_t count = 1;
  for (const std::int64_t axis : how.axes) count *= x.size(axis);
  if (count == 0) {
    const at::Tensor shaped = at::sum(x.to(at::kDouble), how.axes, how.keep);
    const at::Tensor value = kGreatest ? least_of(type, x.device()) : greatest_of(type, x.device());
    return one(value.expand(shaped.sizes()).contiguous(), type);
  }
  const at::Tensor numbers = ordered(x, type);
  const at::Tensor found =
      kGreatest ? at::amax(numbers, how.axes, how.keep) : at::amin(numbers, how.axes, how.keep);
  return one(ordered(found, type), type);
}

/// The first of equals, or the last.
template <bool kGreatest>
Outputs arg_extreme(const Call& call) {
  at::Tensor x = ordered(call.tensor(0), call.type(0));
  const std::int64_t axis = usual_axis(call, call.int_or("axis", 0), x.dim());
  const bool keep = call.int_or("keepdims", 1) != 0, last = call.int_or("select_last_index", 0) != 0;
  if (last) x = x.flip(axis);
  const at::Tensor index = kGreatest ? at::argmax(x, axis, keep) : at::argmin(x, axis, keep);
  return one(last ? x.size(axis) - 1 - index : index, ElementType::kInt64);
}

/// Equals in the order of their indices.
Outputs top_k(const Call& call) {
  const at::Tensor x = ordered(call.tensor(0), call.type(0));
  const std::int64_t axis = usual_axis(call, call.int_or("axis", -1), x.dim());
  const auto given = call.version() < 10 ? std::vector<std::int64_t>{call.int_or("k", -1)} : call.ints(1);
  if (given.size() != 1 || given[0] < 0 || given[0] > x.size(axis)) {
    call.fail("expected one k from 0 to " + std::to_string(x.size(axis)) + ", found " +
              graph::text_of(given));
  }
  const bool largest = call.int_or("largest", 1) != 0;
  const auto [values, indices] = at::sort(x, true, axis, largest);
  const at::Tensor first = values.narrow(axis, 0, given[0]).contiguous();
  return {{ordered(first, call.type(0)), call.type(0)},
          {indices.narrow(axis, 0, given[0]).contiguous(), ElementType::kInt64}};
}

constexpr OperatorRow kReductionsRows[] = {
    {"ReduceSum", exact_reduction<sum_over>},
    {"ReduceSumSquare", exact_reduction<sum_square>},
    {"ReduceProd", exact_reduction<product_over>},
    {"ReduceL1", l1},
    {"ReduceL2", real_reduction<real_l2>},
    {"ReduceLogSum", real_reduction<real_log_sum>},
    {"ReduceLogSumExp", real_reduction<real_log_sum_exp>},
    {"ReduceMean", mean},
    {"ReduceMax", extreme<true>},
    {"ReduceMin", extreme<false>},
    {"ArgMax", arg_extreme<true>},
    {"ArgMin", arg_extreme<false>},
    {"TopK", top_k},
};

}  // namespace

std::span<const OperatorRow> reduction_operators() { return kReductionsRows; }

}  // namespace crumb::libtorch
