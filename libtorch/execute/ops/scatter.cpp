// Scatter, ScatterElements, ScatterND, TensorScatter: updates written to elements of a tensor.
#include <ATen/ATen.h>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

/// LibTorch's name of the attribute `reduction`; empty where updates replace elements.
std::string reduction_of(const Call& call) {
  const std::string reduction = call.text_or("reduction", "none");
  if (reduction == "none") return "";
  if (reduction == "add") return "sum";
  if (reduction == "mul") return "prod";
  if (reduction == "max") return "amax";
  if (reduction == "min") return "amin";
  call.fail("expected reduction none, add, mul, max or min, found another");
}

/// Unsigned 64-bit values in an order-preserving signed form, and back.
at::Tensor sign_flipped(const at::Tensor& values) {
  return values.bitwise_xor(at::Scalar(std::numeric_limits<std::int64_t>::min()));
}

Outputs reduced(const Call& call, const at::Tensor& x, std::int64_t axis, const at::Tensor& places,
                const at::Tensor& updates, const std::string& reduction) {
  if (call.type(0) == ElementType::kUint64 && (reduction == "amax" || reduction == "amin")) {
    return moved(
        call, sign_flipped(sign_flipped(x).scatter_reduce(axis, places, sign_flipped(updates), reduction)));
  }
  return like_input(call, x.scatter_reduce(axis, places, updates, reduction));
}

void expect_same_type(const Call& call) {
  if (call.type(2) != call.type(0)) {
    call.fail("cannot write " + text_of(call.in(2)) + " into " + text_of(call.in(0)));
  }
}

Outputs scatter_elements(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const at::Tensor& updates = call.tensor(2);
  expect_rank(call, 1, x.dim());
  expect_same_type(call);
  if (call.tensor(1).sizes() != updates.sizes()) {
    call.fail("expected as many updates as indices, found " + text_of(call.in(2)) + " and " +
              text_of(call.in(1)));
  }
  const std::int64_t axis = usual_axis(call, call.int_or("axis", 0), x.dim());
  const at::Tensor places = usual_indices(call, call.tensor(1), x.size(axis));
  const std::string reduction = reduction_of(call);
  if (reduction.empty()) return moved(call, x.scatter(axis, places, updates));
  return reduced(call, x, axis, places, updates, reduction);
}

Outputs scatter_nd(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const at::Tensor& indices = call.tensor(1);
  const at::Tensor& updates = call.tensor(2);
  expect_least_rank(call, 0, 1);
  expect_least_rank(call, 1, 1);
  expect_same_type(call);
  const std::int64_t depth = indices.size(-1);
  const auto rest = x.sizes().slice(static_cast<std::size_t>(std::min(depth, x.dim())));
  Ints expected(indices.sizes().begin(), indices.sizes().end() - 1);
  expected.insert(expected.end(), rest.begin(), rest.end());
  if (depth > x.dim() || updates.sizes() != at::IntArrayRef(expected)) {
    call.fail("cannot write " + text_of(call.in(2)) + " to places " + text_of(call.in(1)) + " of " +
              text_of(call.in(0)));
  }
  const auto taken = x.sizes().slice(0, static_cast<std::size_t>(depth));
  const at::Tensor places = flat_places(call, indices, taken).reshape({-1});
  if (updates.numel() == 0) return moved(call, x.clone());
  const std::int64_t width = c10::multiply_integers(rest);
  const at::Tensor rows = x.reshape({c10::multiply_integers(taken), width});
  const at::Tensor rows_of_updates = updates.reshape({places.numel(), width});
  const std::string reduction = reduction_of(call);
  Outputs made = reduction.empty() ? moved(call, rows.index_copy(0, places, rows_of_updates))
                                   : reduced(call, rows, 0, places.unsqueeze(1).expand({-1, width}),
                                             rows_of_updates, reduction);
  made[0].tensor = made[0].tensor.reshape(x.sizes());
  return made;
}

Outputs tensor_scatter(const Call& call) {
  const at::Tensor& cache = call.tensor(0);
  const at::Tensor& update = call.tensor(1);
  expect_least_rank(call, 0, 2);
  expect_rank(call, 1, cache.dim());
  const std::int64_t axis = usual_axis(call, call.int_or("axis", -2), cache.dim());
  for (std::int64_t i = 0; i < cache.dim(); ++i) {
    const bool fits = i == axis ? update.size(i) <= cache.size(i) : update.size(i) == cache.size(i);
    if (!fits || axis == 0 || call.type(1) != call.type(0)) {
      call.fail("cannot write " + text_of(call.in(1)) + " into " + text_of(call.in(0)) + " along axis " +
                std::to_string(axis));
    }
  }
  const std::string mode = call.text_or("mode", "linear");
  if (mode != "linear" && mode != "circular") call.fail("expected mode linear or circular, found another");
  const std::int64_t size = cache.size(axis), batches = cache.size(0);
  const auto options = at::TensorOptions().dtype(at::kLong).device(cache.device());
  at::Tensor starts = at::zeros({batches}, options);
  if (call.has(2)) {
    expect_rank(call, 2, 1);
    expect_length(call, "write_indices", static_cast<std::size_t>(call.tensor(2).numel()), batches);
    starts = call.tensor(2).to(at::kLong);
    for (const std::int64_t start : call.ints(2)) {
      const bool inside =
          start >= 0 && start <= size && (mode == "circular" || start <= size - update.size(axis));
      if (!inside) call.fail("write index " + std::to_string(start) + " is outside " + std::to_string(size));
    }
  }
  at::Tensor places = starts.unsqueeze(1) + at::arange(update.size(axis), options);  // [batch, written]
  if (mode == "circular" && size > 0) places = places.remainder(size);
  Ints shape(static_cast<std::size_t>(cache.dim()), 1);
  shape[0] = batches;
  shape[static_cast<std::size_t>(axis)] = update.size(axis);
  return moved(call, cache.scatter(axis, places.reshape(shape).expand(update.sizes()), update));
}

constexpr OperatorRow kScatterRows[] = {
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"TensorScatter", tensor_scatter},
};

}  // namespace

std::span<const OperatorRow> scatter_operators() { return kScatterRows; }

}  // namespace crumb::libtorch
