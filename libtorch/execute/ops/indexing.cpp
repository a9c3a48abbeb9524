// Gather, GatherElements, GatherND, OneHot, NonZero, Compress: elements by their indices.
#include <ATen/ATen.h>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {

at::Tensor usual_indices(const Call& call, const at::Tensor& indices, std::int64_t size) {
  if (indices.is_floating_point() || indices.is_complex() || indices.scalar_type() == at::kBool) {
    call.fail("expected integers as indices, found " + std::string(c10::toString(indices.scalar_type())));
  }
  const at::Tensor places = indices.to(at::kLong);
  if (places.numel() == 0) return places;
  const auto [low, high] = at::aminmax(places);
  const auto least = low.item<std::int64_t>(), most = high.item<std::int64_t>();
  if (least < -size || most >= size) {
    call.fail("index " + std::to_string(least < -size ? least : most) + " is outside " +
              std::to_string(size) + " elements");
  }
  return least < 0 ? at::where(places < 0, places + size, places) : places;
}

at::Tensor flat_places(const Call& call, const at::Tensor& indices, at::IntArrayRef sizes) {
  at::Tensor places = at::zeros(indices.sizes().slice(0, static_cast<std::size_t>(indices.dim() - 1)),
                                indices.options().dtype(at::kLong));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const at::Tensor along = usual_indices(call, indices.select(-1, static_cast<std::int64_t>(i)), sizes[i]);
    places = places * sizes[i] + along;
  }
  return places;
}

namespace {

using graph::ElementType;

/// Sizes of a tensor from axis `from` to before axis `to`.
Ints sizes_between(const at::Tensor& tensor, std::int64_t from, std::int64_t to) {
  const auto sizes = tensor.sizes();
  return {sizes.begin() + from, sizes.begin() + to};
}

Ints joined(Ints a, const Ints& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Outputs gather(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const at::Tensor& indices = call.tensor(1);
  const std::int64_t axis = usual_axis(call, call.int_or("axis", 0), x.dim());
  const at::Tensor places = usual_indices(call, indices, x.size(axis));
  const Ints shape = joined(joined(sizes_between(x, 0, axis), sizes_between(indices, 0, indices.dim())),
                            sizes_between(x, axis + 1, x.dim()));
  if (places.numel() == 1) {  // a view: what picks one element of a shape or one channel
    return moved(call, x.select(axis, places.item<std::int64_t>()).reshape(shape));
  }
  return moved(call, x.index_select(axis, places.reshape({-1})).reshape(shape));
}

Outputs gather_elements(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  expect_rank(call, 1, x.dim());
  const std::int64_t axis = usual_axis(call, call.int_or("axis", 0), x.dim());
  return moved(call, x.gather(axis, usual_indices(call, call.tensor(1), x.size(axis))));
}

Outputs gather_nd(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const at::Tensor& indices = call.tensor(1);
  expect_least_rank(call, 0, 1);
  expect_least_rank(call, 1, 1);
  const std::int64_t batch = call.version() >= 12 ? call.int_or("batch_dims", 0) : 0;
  const std::int64_t depth = indices.size(-1);
  const bool fits = batch >= 0 && batch < indices.dim() && depth <= x.dim() && batch + depth <= x.dim();
  if (!fits || sizes_between(x, 0, batch) != sizes_between(indices, 0, batch)) {
    call.fail("cannot take places " + text_of(call.in(1)) + " of " + text_of(call.in(0)) + " with " +
              std::to_string(batch) + " batch axes");
  }
  at::Tensor places = flat_places(
      call, indices, x.sizes().slice(static_cast<std::size_t>(batch), static_cast<std::size_t>(depth)));
  const Ints batches = sizes_between(x, 0, batch), taken = sizes_between(x, batch, batch + depth);
  const Ints rest = sizes_between(x, batch + depth, x.dim());
  const std::int64_t many = c10::multiply_integers(batches), each = c10::multiply_integers(taken);
  const Ints shape = joined(sizes_between(indices, 0, indices.dim() - 1), rest);
  if (places.numel() == 0 || c10::multiply_integers(rest) == 0) return moved(call, x.new_empty(shape));
  places = places.reshape({many, -1}) + each * at::arange(many, places.options()).unsqueeze(1);
  const at::Tensor rows = x.reshape({many * each, c10::multiply_integers(rest)});
  return moved(call, rows.index_select(0, places.reshape({-1})).reshape(shape));
}

/// One whole number of an input that is a scalar or has one element.
std::int64_t whole_number(const Call& call, std::size_t i) {
  const Ints values = call.ints(i);
  expect_length(call, "input " + std::to_string(i), values.size(), 1);
  return values[0];
}

Outputs one_hot(const Call& call) {
  at::Tensor indices = call.tensor(0).to(at::kLong);
  const std::int64_t depth = whole_number(call, 1), rank = indices.dim() + 1;
  const std::int64_t axis = usual_axis(call, call.int_or("axis", -1), rank);
  const at::Tensor& values = call.tensor(2);
  if (values.numel() != 2 || depth < 0) {
    call.fail("expected a depth of 0 or more and two values, found " + std::to_string(depth) + " and " +
              text_of(call.in(2)));
  }
  if (call.version() >= 11) indices = at::where(indices < 0, indices + depth, indices);
  Ints shape(static_cast<std::size_t>(rank), 1);
  shape[static_cast<std::size_t>(axis)] = depth;
  const at::Tensor on = at::arange(depth, indices.options()).reshape(shape) == indices.unsqueeze(axis);
  const at::Tensor flat = values.reshape({2});
  return one(at::where(on, flat[1], flat[0]), call.type(2));
}

Outputs non_zero(const Call& call) {
  return one(at::nonzero(call.tensor(0)).t().contiguous(), ElementType::kInt64);
}

Outputs compress(const Call& call) {
  at::Tensor x = call.tensor(0);
  expect_rank(call, 1, 1);
  std::int64_t axis = 0;
  if (call.node().has("axis")) {
    axis = usual_axis(call, call.int_or("axis", 0), x.dim());
  } else {
    x = x.reshape({-1});
  }
  const at::Tensor places = at::nonzero(call.tensor(1)).reshape({-1});
  return moved(call, x.index_select(axis, usual_indices(call, places, x.size(axis))));
}

Outputs array_feature_extractor(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  expect_least_rank(call, 0, 1);
  const at::Tensor places = usual_indices(call, call.tensor(1), x.size(-1)).reshape({-1});
  const at::Tensor taken = x.index_select(-1, places);
  return moved(call, x.dim() == 1 ? taken.unsqueeze(0) : taken);
}

constexpr OperatorRow kIndexingRows[] = {
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"OneHot", one_hot},
    {"NonZero", non_zero},
    {"Compress", compress},
    {"ArrayFeatureExtractor", array_feature_extractor, "ai.onnx.ml"},
};

}  // namespace

std::span<const OperatorRow> index_operators() { return kIndexingRows; }

}  // namespace crumb::libtorch
