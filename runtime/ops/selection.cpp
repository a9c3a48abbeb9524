// OneHot, EyeLike, Compress, Hardmax, NonMaxSuppression: what is chosen, and where.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "graph/boxes.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

/// Indices outside of [-depth, depth) choose nothing.
Kernel one_hot(const NodeFacts& facts) {
  const std::int64_t requested = facts.int_or("axis", -1);
  const bool counts_from_end = facts.version() >= 11;
  return [=](Call& call) {
    const Array indices = cast(call.in(0), ElementType::kInt64);
    const Array given = cast(call.in(1), ElementType::kInt64), values = call.in(2);  // it may be a float
    if (given.size() != 1) call.fail("expected one depth, found " + text_of(call.in(1)));
    const std::int64_t depth = given.values<std::int64_t>()[0];
    if (values.size() != 2 || depth < 0)
      call.fail("expected a depth of 0 or more and two values, found " + std::to_string(depth) + " and " +
                text_of(values));
    const auto axis = static_cast<std::size_t>(call.usual_axis(requested, indices.rank() + 1));
    Ints shape = indices.shape();
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), depth);
    Array& made = call.make(0, values.type(), shape);
    const auto inner = static_cast<std::size_t>(product_of(shape, axis + 1, shape.size())),
               along = static_cast<std::size_t>(depth);
    const auto index = indices.values<std::int64_t>();
    with_width(values, [&]<class T>() {
      const T* const two = reinterpret_cast<const T*>(values.data());
      T* const to = reinterpret_cast<T*>(made.writable_data());
      std::fill(to, to + made.size(), two[0]);
      for (std::size_t i = 0; i < index.size(); ++i) {
        const std::int64_t at = counts_from_end && index[i] < 0 ? index[i] + depth : index[i];
        if (at >= 0 && at < depth)
          to[(i / inner * along + static_cast<std::size_t>(at)) * inner + i % inner] = two[1];
      }
    });
  };
}

Kernel eye_like(const NodeFacts& facts) {
  const std::int64_t diagonal = facts.int_or("k", 0), number = facts.int_or("dtype", 0);
  const auto asked = facts.node.has("dtype") ? graph::element_type_of(number) : std::nullopt;
  if (facts.node.has("dtype") && !asked) facts.fail("dtype " + std::to_string(number) + " is no type");
  return [=](Call& call) {
    const Array& x = call.in(0);
    if (x.rank() != 2) call.fail("expected a matrix, found " + text_of(x));
    Array eye(ElementType::kBool, x.shape());
    const auto cells = eye.writable<bool>();
    std::ranges::fill(cells, false);
    const std::int64_t rows = x.dim(0), columns = x.dim(1);
    if (diagonal > -rows && diagonal < columns) {
      for (std::int64_t row = std::max<std::int64_t>(0, -diagonal); row < rows && row + diagonal < columns;
           ++row)
        cells[static_cast<std::size_t>(row * columns + row + diagonal)] = true;
    }
    call.give(0, cast(eye, asked.value_or(x.type())));
  };
}

/// The slices along an axis, or the elements, whose condition is true; conditions may be fewer than these.
Kernel compress(const NodeFacts& facts) {
  const bool has_axis = facts.node.has("axis");
  const std::int64_t requested = facts.int_or("axis", 0);
  return [=](Call& call) {
    const Array x =
        has_axis ? call.in(0) : call.in(0).reshaped({static_cast<std::int64_t>(call.in(0).size())});
    const Ints condition = call.ints(1);
    const auto axis = static_cast<std::size_t>(call.usual_axis(requested, x.rank()));
    std::vector<std::size_t> taken;
    for (std::size_t i = 0; i < condition.size(); ++i) {
      if (condition[i] == 0) continue;
      if (static_cast<std::int64_t>(i) >= x.shape()[axis])
        call.fail("condition " + std::to_string(i) + " is true, and there are " +
                  std::to_string(x.shape()[axis]) + " slices");
      taken.push_back(i);
    }
    Ints shape = x.shape();
    shape[axis] = static_cast<std::int64_t>(taken.size());
    Array& made = call.make(0, x.type(), shape);
    const auto outer = static_cast<std::size_t>(product_of(shape, 0, axis)),
               along = static_cast<std::size_t>(x.shape()[axis]),
               step = static_cast<std::size_t>(product_of(shape, axis + 1, shape.size())) *
                      bytes_of(x.carrier());
    for (std::size_t o = 0; o < outer && step > 0; ++o)
      for (std::size_t i = 0; i < taken.size(); ++i)
        std::memcpy(made.writable_data() + (o * taken.size() + i) * step,
                    x.data() + (o * along + taken[i]) * step, step);
  };
}

/// 1 at the first of the largest elements, 0 elsewhere: along an axis, before operator set 13 over all axes
/// from it on.
Kernel hardmax(const NodeFacts& facts) {
  const bool is_along = facts.version() >= 13;
  const std::int64_t requested = facts.int_or("axis", is_along ? -1 : 1);
  return [=](Call& call) {
    const Array x = call.in(0);
    const auto rank = static_cast<std::size_t>(x.rank());
    const auto axis = requested == x.rank() && !is_along
                          ? rank
                          : static_cast<std::size_t>(call.usual_axis(requested, x.rank()));
    const std::size_t behind = is_along ? axis + 1 : rank;
    const auto along = static_cast<std::size_t>(product_of(x.shape(), axis, behind)),
               inner = static_cast<std::size_t>(product_of(x.shape(), behind, rank));
    const auto from = call.floats(0);
    const auto to = call.make(0, x.type(), x.shape()).writable<float>();
    std::ranges::fill(to, 0.0F);
    for (std::size_t begin = 0; begin + along * inner <= from.size() && along * inner > 0;
         begin += along * inner) {
      for (std::size_t i = 0; i < inner; ++i) {
        std::size_t best = 0;
        for (std::size_t k = 1; k < along; ++k)
          if (from[begin + k * inner + i] > from[begin + best * inner + i]) best = k;
        to[begin + best * inner + i] = 1;
      }
    }
  };
}

std::optional<float> float_of(const Call& call, std::size_t i) {
  if (!call.has(i) || call.in(i).size() == 0) return std::nullopt;
  return call.floats(i)[0];
}

Kernel non_max_suppression(const NodeFacts& facts) {
  const bool centered = facts.int_or("center_point_box", 0) != 0;
  return [centered](Call& call) {
    const Array &boxes = call.in(0), &scores = call.in(1);
    if (boxes.rank() != 3 || scores.rank() != 3 || boxes.dim(2) != 4 || scores.dim(0) != boxes.dim(0) ||
        scores.dim(2) != boxes.dim(1))
      call.fail("expected boxes [batches, boxes, 4] and scores [batches, classes, boxes], found " +
                text_of(boxes) + " and " + text_of(scores));
    const std::int64_t most = call.has(2) && call.in(2).size() > 0 ? call.ints(2)[0] : 0;
    const float threshold = float_of(call, 3).value_or(0);
    const std::optional<float> least_score = float_of(call, 4);
    const auto many = static_cast<std::size_t>(boxes.dim(1));
    const auto corners = call.floats(0), of_all = call.floats(1);
    Ints found;
    std::vector<graph::Box> batch(many);
    for (std::int64_t b = 0; b < boxes.dim(0) && most > 0; ++b) {
      const auto first = static_cast<std::size_t>(b) * many;
      for (std::size_t i = 0; i < many; ++i)
        batch[i] = graph::box_of(corners.data() + (first + i) * 4, centered);
      for (std::int64_t c = 0; c < scores.dim(1); ++c) {
        call.spend({many, static_cast<std::size_t>(std::min<std::int64_t>(most, boxes.dim(1)))});
        const float* const of_class = of_all.data() + static_cast<std::size_t>(b * scores.dim(1) + c) * many;
        for (const std::int64_t box : graph::kept_boxes(batch, of_class, most, threshold, least_score))
          found.insert(found.end(), {b, c, box});
      }
    }
    Array& made = call.make(0, ElementType::kInt64, {static_cast<std::int64_t>(found.size() / 3), 3});
    std::ranges::copy(found, made.writable<std::int64_t>().begin());
  };
}

}  // namespace

std::span<const OperatorRow> selection_operators() {
  static constexpr OperatorRow kRows[] = {
      {"OneHot", one_hot},
      {"EyeLike", eye_like},
      {"Compress", compress},
      {"Hardmax", hardmax, Takes::kFloats},
      {"NonMaxSuppression", non_max_suppression, Takes::kFloats},
  };
  return kRows;
}

}  // namespace crumb::runtime
