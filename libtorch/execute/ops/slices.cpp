// Split, Slice, Pad, CenterCropPad, ReverseSequence: parts of a tensor, and frames around it.
#include <ATen/ATen.h>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

/// The sizes of equal parts. The last may be smaller since operator set 18.
Ints equal_parts(const Call& call, std::int64_t size) {
  const std::int64_t asked = call.version() >= 18 ? call.int_or("num_outputs", 0) : 0;
  const std::int64_t named = static_cast<std::int64_t>(call.outputs());
  const std::int64_t count = asked > 0 ? asked : named;
  if (count > named || count < 1) {
    call.fail("expected as many outputs as num_outputs, found " + std::to_string(named) + " and " +
              std::to_string(count));
  }
  if (call.version() < 18 && size % count != 0) {
    call.fail("cannot split " + text_of(call.in(0)) + " into " + std::to_string(count) + " equal parts");
  }
  const std::int64_t part = (size + count - 1) / count;
  Ints parts;
  for (std::int64_t i = 0; i < count; ++i) {
    parts.push_back(std::clamp(size - i * part, std::int64_t{0}, part));
  }
  return parts;
}

Outputs split(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const std::int64_t axis = usual_axis(call, call.int_or("axis", 0), x.dim());
  const std::int64_t size = x.size(axis);
  const auto given = call.ints(1, "split");
  const Ints parts = given ? *given : equal_parts(call, size);
  std::int64_t left = size;
  for (const std::int64_t part : parts) {
    if (part < 0 || part > left) left = -1;
    if (left < 0) break;
    left -= part;
  }
  if (left != 0 || parts.size() < call.outputs()) {
    call.fail("cannot split axis " + std::to_string(axis) + " of " + text_of(call.in(0)) + " into " +
              graph::text_of(parts) + " for " + std::to_string(call.outputs()) + " outputs");
  }
  Outputs outputs;
  for (const at::Tensor& part : x.split_with_sizes(parts, axis)) outputs.push_back({part, call.type(0)});
  return outputs;
}

/// Elements start, start + step, ... before end along an axis, as Python counts them.
at::Tensor stepped(const at::Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end,
                   std::int64_t step) {
  const std::int64_t size = x.size(axis);
  step = std::clamp(step, -(size + 1), size + 1);  // as far, without overflow
  if (start < 0) start += size;
  if (end < 0) end += size;
  if (step > 0) {
    start = std::clamp<std::int64_t>(start, 0, size);
    return x.slice(axis, start, std::clamp(end, start, size), step);
  }
  start = std::clamp<std::int64_t>(start, -1, size - 1);
  end = std::clamp<std::int64_t>(end, -1, start);
  if (start == end) return x.slice(axis, 0, 0);
  const std::int64_t last = start - (start - end - 1) / -step * -step;
  return x.slice(axis, last, start + 1, -step).flip(axis);
}

Outputs slice(const Call& call) {
  at::Tensor x = call.tensor(0);
  const auto starts = call.ints(1, "starts"), ends = call.ints(2, "ends"),
             steps = call.has(4) ? std::optional(call.ints(4)) : std::nullopt;
  if (!starts || !ends) call.fail("expected starts and ends");
  const auto count = static_cast<std::int64_t>(starts->size());
  const Ints axes = usual_axes(call, call.ints(3, "axes").value_or(first_axes(count)), x.dim());
  expect_length(call, "ends", ends->size(), count);
  expect_length(call, "axes", axes.size(), count);
  if (steps) expect_length(call, "steps", steps->size(), count);
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0) call.fail("a step is 0");
    x = stepped(x, axes[i], (*starts)[i], (*ends)[i], step);
  }
  return moved(call, x);
}

/// For each index of a padded axis of `size` elements, the element that it takes.
at::Tensor padded_indices(const at::Tensor& like, std::int64_t size, std::int64_t before, std::int64_t after,
                          const std::string& mode) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(like.device());
  const at::Tensor places = at::arange(-before, size + after, options);
  if (mode == "edge") return places.clamp(0, size - 1);
  if (mode == "wrap") return places.remainder(size);
  if (size == 1) return at::zeros_like(places);
  const at::Tensor there = places.remainder(2 * (size - 1));  // forth, and back without the ends
  return at::minimum(there, 2 * (size - 1) - there);
}

struct Frame {
  Ints before, after;  ///< for every axis of the input
};

Frame frame_of(const Call& call) {
  const std::int64_t rank = call.tensor(0).dim();
  const auto pads = call.ints(1, call.version() < 2 ? "paddings" : "pads");
  if (!pads) call.fail("expected pads, found neither input 1 nor the attribute");
  const Ints axes = call.has(3) ? usual_axes(call, call.ints(3), rank) : first_axes(rank);
  expect_length(call, "pads", pads->size(), static_cast<std::int64_t>(axes.size()) * 2);
  Frame frame{Ints(static_cast<std::size_t>(rank)), Ints(static_cast<std::size_t>(rank))};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    frame.before[axis] = (*pads)[i];
    frame.after[axis] = (*pads)[axes.size() + i];
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  for (std::size_t i = 0; i < frame.before.size(); ++i) {
    const std::int64_t size = call.tensor(0).size(static_cast<std::int64_t>(i));
    if (std::max(frame.before[i], frame.after[i]) > kMost ||
        std::min(frame.before[i], frame.after[i]) < -kMost || size + frame.before[i] + frame.after[i] < 0) {
      call.fail("cannot pad " + text_of(call.in(0)) + " by " + graph::text_of(frame.before) + " and " +
                graph::text_of(frame.after));
    }
  }
  return frame;
}

at::Tensor padded_with(const at::Tensor& x, const Frame& frame, const at::Scalar& value) {
  Ints pads;  // from the last axis, both sides
  for (std::size_t i = frame.before.size(); i-- > 0;) {
    pads.push_back(frame.before[i]);
    pads.push_back(frame.after[i]);
  }
  return at::constant_pad_nd(x, pads, value);
}

Outputs pad(const Call& call) {
  const std::string mode = call.text_or("mode", "constant");
  const Frame frame = frame_of(call);
  at::Tensor x = call.tensor(0);
  if (mode == "constant") {
    at::Scalar value = 0;
    if (call.version() < 11) {
      value = call.float_or("value", 0);
    } else if (call.has(2)) {
      if (call.tensor(2).numel() != 1 || call.type(2) != call.type(0)) {
        call.fail("expected one " + std::string(graph::name_of(call.type(0))) + " to pad with, found " +
                  text_of(call.in(2)));
      }
      value = call.tensor(2).item();
    }
    return moved(call, padded_with(x, frame, value));
  }
  if (mode != "reflect" && mode != "edge" && mode != "wrap") {
    call.fail("expected mode constant, reflect, edge or wrap, found another");
  }
  for (std::int64_t axis = 0; axis < x.dim(); ++axis) {
    const std::int64_t before = frame.before[static_cast<std::size_t>(axis)];
    const std::int64_t after = frame.after[static_cast<std::size_t>(axis)];
    const std::int64_t cut = std::max<std::int64_t>(-before, 0), size = x.size(axis) - cut;
    x = x.slice(axis, std::min(cut, x.size(axis)), x.size(axis) + std::min<std::int64_t>(after, 0));
    if (before <= 0 && after <= 0) continue;
    if (size <= 0 || x.size(axis) == 0)
      call.fail("mode " + mode + " finds no element on axis " + std::to_string(axis));
    const at::Tensor from = padded_indices(x, x.size(axis), std::max<std::int64_t>(before, 0),
                                           std::max<std::int64_t>(after, 0), mode);
    x = x.index_select(axis, from);
  }
  return moved(call, x);
}

Outputs center_crop_pad(const Call& call) {
  at::Tensor x = call.tensor(0);
  const Ints shape = call.ints(1);
  const Ints axes = usual_axes(call, call.ints_attribute("axes").value_or(first_axes(x.dim())), x.dim());
  expect_length(call, "shape", shape.size(), static_cast<std::int64_t>(axes.size()));
  Frame frame{Ints(static_cast<std::size_t>(x.dim())), Ints(static_cast<std::size_t>(x.dim()))};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t size = x.size(axes[i]), wanted = shape[i];
    if (wanted < 0) call.fail("expected sizes of 0 or more, found " + graph::text_of(shape));
    if (wanted <= size) {
      x = x.narrow(axes[i], (size - wanted) / 2, wanted);
    } else {
      frame.before[static_cast<std::size_t>(axes[i])] = (wanted - size) / 2;
      frame.after[static_cast<std::size_t>(axes[i])] = wanted - size - (wanted - size) / 2;
    }
  }
  return moved(call, padded_with(x, frame, 0));
}

Outputs reverse_sequence(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  expect_least_rank(call, 0, 2);
  expect_rank(call, 1, 1);
  const std::int64_t batch = usual_axis(call, call.int_or("batch_axis", 1), x.dim());
  const std::int64_t time = usual_axis(call, call.int_or("time_axis", 0), x.dim());
  if (batch == time) call.fail("batch_axis and time_axis are the same");
  expect_length(call, "sequence_lens", static_cast<std::size_t>(call.tensor(1).numel()), x.size(batch));
  const at::Tensor lengths = call.tensor(1).to(at::kLong);
  for (const std::int64_t length : call.ints(1)) {
    if (length < 0 || length > x.size(time)) {
      call.fail("a sequence of length " + std::to_string(length) + " in " + text_of(call.in(0)));
    }
  }
  const at::Tensor steps = at::arange(x.size(time), lengths.options()).unsqueeze(1);
  at::Tensor from = at::where(steps < lengths, lengths - 1 - steps, steps);  // [time, batch]
  if (batch < time) from = from.t();
  Ints shape(static_cast<std::size_t>(x.dim()), 1);
  shape[static_cast<std::size_t>(batch)] = x.size(batch);
  shape[static_cast<std::size_t>(time)] = x.size(time);
  return moved(call, x.gather(time, from.reshape(shape).expand(x.sizes())));
}

constexpr OperatorRow kSlicesRows[] = {
    {"Split", split},
    {"Slice", slice},
    {"Pad", pad},
    {"CenterCropPad", center_crop_pad},
    {"ReverseSequence", reverse_sequence},
};

}  // namespace

std::span<const OperatorRow> slice_operators() { return kSlicesRows; }

}  // namespace crumb::libtorch
