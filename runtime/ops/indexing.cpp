// Elements by their indices.
#include <algorithm>
#include <limits>

#include "runtime/ops/families.h"
#include "runtime/ops/held_matrix.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

/// Indices of an axis, negative ones counted from the back. Throws Error where one lies outside.
Ints indices_of(const Call& call, std::size_t input, std::int64_t size) {
  Ints indices = call.ints(input);
  for (std::int64_t& index : indices) {
    if (index < -size || index >= size)
      call.fail("index " + std::to_string(index) + " is outside of " + std::to_string(size));
    if (index < 0) index += size;
  }
  return indices;
}

/// The shape of what Gather makes.
Ints gathered_shape(const Ints& x, std::size_t axis, const Ints& indices) {
  Ints shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end());
  return shape;
}

/// Rows of a table that stays packed: each is decoded when it is asked for. decode(first, out) fills `out`
/// with the table's elements from `first` on.
template <class Decode>
Kernel gather_packed(const Ints& table, Decode decode) {
  return [table, decode = std::move(decode)](Call& call) {
    const Ints rows = indices_of(call, 1, table[0]);
    Array& made = call.make(0, ElementType::kFloat, gathered_shape(table, 0, call.in(1).shape()));
    const auto width = static_cast<std::size_t>(product_of(table, 1, table.size()));
    for (std::size_t i = 0; i < rows.size(); ++i)
      decode(static_cast<std::uint64_t>(rows[i]) * width, made.writable<float>().subspan(i * width, width));
  };
}

Kernel gather_packed(const graph::QuantizedConstant& table) {
  return gather_packed(table.shape(),
                       [tensor = table.tensor, decoder = RowDecoder(table.tensor->unchecked_view())](
                           std::uint64_t first, std::span<float> out) {
                         tensor->check_codes();
                         decoder.flat_values(first, out);
                       });
}

Kernel gather(const NodeFacts& facts) {
  const std::int64_t requested = facts.int_or("axis", 0);
  Array held;
  if (facts.packed) {
    if (facts.packed->axes.empty()) facts.fail("cannot take elements of a number");
    if (gathers_codes(facts.node, *facts.packed)) return gather_packed(*facts.packed);
    held = Array::of(facts.packed->value());
  } else if (facts.rows) {
    const graph::PackedRows* const rows = facts.rows->packed_rows();
    if (rows && gathers_rows(facts.node, *rows))
      return gather_packed(facts.rows->shape(),
                           [source = rows->source](std::uint64_t first, std::span<float> out) {
                             decode_elements(*source, first, out);
                           });
    held = Array::of(*facts.rows);
  } else if (const Array* constant = facts.constant(0)) {
    held = *constant;
  }
  return [requested, held](Call& call) {
    const Array& x = held.defined() ? held : call.in(0);
    const auto axis = static_cast<std::size_t>(call.usual_axis(requested, x.rank()));
    const Ints indices = indices_of(call, 1, x.shape()[axis]);
    const Ints shape = gathered_shape(x.shape(), axis, call.in(1).shape());
    const auto outer = static_cast<std::size_t>(product_of(x.shape(), 0, axis));
    const std::size_t inner =
        static_cast<std::size_t>(product_of(x.shape(), axis + 1, x.shape().size())) * bytes_of(x.carrier());
    const std::size_t row = static_cast<std::size_t>(x.shape()[axis]) * inner;
    std::byte* to = call.make(0, x.type(), shape).writable_data();
    if (inner == 0) return;
    for (std::size_t o = 0; o < outer; ++o) {
      for (const std::int64_t index : indices) {
        std::memcpy(to, x.data() + o * row + static_cast<std::size_t>(index) * inner, inner);
        to += inner;
      }
    }
  };
}

/// For each element of the indices: the element of x at the same indices, but on the axis at the index that
/// it says.
Kernel gather_elements(const NodeFacts& facts) {
  const std::int64_t requested = facts.int_or("axis", 0);
  return [requested](Call& call) {
    const Array& x = call.in(0);
    const auto axis = static_cast<std::size_t>(call.usual_axis(requested, x.rank()));
    const Ints shape = call.in(1).shape(), indices = indices_of(call, 1, x.shape()[axis]);
    if (shape.size() != x.shape().size())
      call.fail("cannot take " + text_of(x) + " and " + text_of(call.in(1)));
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i != axis && shape[i] > x.shape()[i])
        call.fail("cannot take " + text_of(x) + " and " + text_of(call.in(1)));
    }
    Ints steps = strides_of(x.shape());
    const std::int64_t along = steps[axis];
    steps[axis] = 0;
    Array& made = call.make(0, x.type(), shape);
    with_width(x, [&]<class T>() {
      const T* const from = reinterpret_cast<const T*>(x.data());
      T* to = reinterpret_cast<T*>(made.writable_data());
      auto index = indices.begin();
      for_offsets(shape, steps, 0, [&](std::int64_t at) { *to++ = from[at + *index++ * along]; });
    });
  };
}

/// Offsets, in elements of x, of what tuples of indices (the last axis of input 1) name, behind `batches`
/// axes.
Ints offsets_of(const Call& call, const Array& x, std::size_t batches) {
  const Ints &shape = call.in(1).shape(), tuples = call.ints(1);
  const auto width = static_cast<std::size_t>(shape.empty() ? 0 : shape.back());
  if (shape.empty() || batches >= shape.size() || batches + width > x.shape().size())
    call.fail("cannot take " + text_of(x) + " and " + text_of(call.in(1)));
  for (std::size_t i = 0; i < batches; ++i) {
    if (shape[i] != x.shape()[i]) call.fail("cannot take " + text_of(x) + " and " + text_of(call.in(1)));
  }
  const Ints strides = strides_of(x.shape());
  const std::int64_t groups = product_of(shape, 0, batches),
                     each = product_of(shape, batches, shape.size() - 1);
  const std::int64_t reach = product_of(x.shape(), batches, x.shape().size());
  Ints offsets;
  auto next = tuples.begin();
  for (std::int64_t b = 0; b < groups; ++b) {
    for (std::int64_t i = 0; i < each; ++i) {
      std::int64_t at = b * reach;
      for (std::size_t k = 0; k < width; ++k) {
        const std::int64_t size = x.shape()[batches + k], index = *next++;
        if (index < -size || index >= size)
          call.fail("index " + std::to_string(index) + " is outside of " + std::to_string(size));
        at += (index < 0 ? index + size : index) * strides[batches + k];
      }
      offsets.push_back(at);
    }
  }
  return offsets;
}

Kernel gather_nd(const NodeFacts& facts) {
  const auto batches = static_cast<std::size_t>(std::max<std::int64_t>(0, facts.int_or("batch_dims", 0)));
  return [batches](Call& call) {
    const Array& x = call.in(0);
    const Ints offsets = offsets_of(call, x, batches);
    Ints shape = call.in(1).shape();
    const auto width = static_cast<std::size_t>(shape.back());
    shape.pop_back();
    shape.insert(shape.end(), x.shape().begin() + static_cast<std::ptrdiff_t>(batches + width),
                 x.shape().end());
    const std::size_t element = bytes_of(x.carrier());
    const std::size_t inner =
        static_cast<std::size_t>(product_of(x.shape(), batches + width, x.shape().size())) * element;
    std::byte* to = call.make(0, x.type(), shape).writable_data();
    for (std::size_t i = 0; i < offsets.size() && inner > 0; ++i, to += inner)
      std::memcpy(to, x.data() + static_cast<std::size_t>(offsets[i]) * element, inner);
  };
}

Kernel scatter_nd(const NodeFacts& facts) {
  if (facts.text_or("reduction", "none") != "none") facts.fail("a reduction is not there");
  return [](Call& call) {
    const Array& x = call.in(0);
    const Array& updates = call.in(2);
    const Ints offsets = offsets_of(call, x, 0);
    const auto width = static_cast<std::size_t>(call.in(1).shape().back());
    const std::size_t element = bytes_of(x.carrier());
    const std::size_t inner =
        static_cast<std::size_t>(product_of(x.shape(), width, x.shape().size())) * element;
    if (updates.type() != x.type() || updates.bytes() != offsets.size() * inner)
      call.fail("cannot take " + text_of(updates) + " as updates of " + text_of(x));
    Array& made = call.make(0, x.type(), x.shape());
    if (made.bytes() > 0) std::memcpy(made.writable_data(), x.data(), made.bytes());
    for (std::size_t i = 0; i < offsets.size() && inner > 0; ++i)
      std::memcpy(made.writable_data() + static_cast<std::size_t>(offsets[i]) * element,
                  updates.data() + i * inner, inner);
  };
}

Kernel scatter_elements(const NodeFacts& facts) {
  if (facts.text_or("reduction", "none") != "none") facts.fail("a reduction is not there");
  const std::int64_t requested = facts.int_or("axis", 0);
  return [requested](Call& call) {
    const Array &x = call.in(0), &updates = call.in(2);
    const auto axis = static_cast<std::size_t>(call.usual_axis(requested, x.rank()));
    const Ints shape = call.in(1).shape(), indices = indices_of(call, 1, x.shape()[axis]);
    bool fits = shape.size() == x.shape().size() && updates.shape() == shape && updates.type() == x.type();
    for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = i == axis || shape[i] <= x.shape()[i];
    if (!fits)
      call.fail("cannot take " + text_of(updates) + " at " + text_of(call.in(1)) + " as updates of " +
                text_of(x));
    Ints steps = strides_of(x.shape());
    const std::int64_t along = steps[axis];
    steps[axis] = 0;
    Array& made = call.make(0, x.type(), x.shape());
    if (made.bytes() > 0) std::memcpy(made.writable_data(), x.data(), made.bytes());
    with_width(x, [&]<class T>() {
      const T* from = reinterpret_cast<const T*>(updates.data());
      T* const to = reinterpret_cast<T*>(made.writable_data());
      auto index = indices.begin();
      for_offsets(shape, steps, 0, [&](std::int64_t at) { to[at + *index++ * along] = *from++; });
    });
  };
}

/// The indices of the elements that are not 0, in row-major order: [axes, elements].
Kernel non_zero(const NodeFacts&) {
  return [](Call& call) {
    const Array& x = call.in(0);
    const Ints& shape = x.shape();
    with_carrier(x.carrier(), [&]<class T>() {
      const auto values = x.values<T>();
      const auto count = static_cast<std::size_t>(
          std::ranges::count_if(values, [](const T& value) { return value != T{}; }));
      const Ints sizes{static_cast<std::int64_t>(shape.size()), static_cast<std::int64_t>(count)};
      const auto to = call.make(0, ElementType::kInt64, sizes).template writable<std::int64_t>();
      if (count == 0) return;
      const Ints steps = strides_of(shape);
      for (std::size_t i = 0, found = 0; i < values.size(); ++i) {
        if (values[i] == T{}) continue;
        for (std::size_t axis = 0; axis < shape.size(); ++axis)
          to[axis * count + found] = static_cast<std::int64_t>(i) / steps[axis] % shape[axis];
        ++found;
      }
    });
  };
}

/// Elements beyond a diagonal are 0.
Kernel triangle(const NodeFacts& facts) {
  const bool upper = facts.int_or("upper", 1) != 0;
  return [upper](Call& call) {
    const Array& x = call.in(0);
    if (x.rank() < 2) call.fail("cannot take " + text_of(x));
    const Ints k = call.has(1) ? call.ints(1) : Ints{0};
    if (k.size() != 1) call.fail("expected one diagonal");
    const std::int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1);
    Array& made = call.make(0, x.type(), x.shape());
    with_width(x, [&]<class T>() {
      const T* from = reinterpret_cast<const T*>(x.data());
      T* to = reinterpret_cast<T*>(made.writable_data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const std::int64_t beyond = at % columns - at / columns % rows - std::clamp(k[0], -rows, columns);
        to[i] = (upper ? beyond >= 0 : beyond <= 0) ? from[i] : T{0};
      }
    });
  };
}

/// Whether the axis that a Gather picks from is the first of so many.
bool gathers_first(const graph::Node& node, std::size_t axes) {
  const auto rank = static_cast<std::int64_t>(axes);
  const std::int64_t axis = node.int_or("axis", 0);
  return rank > 0 && (axis == 0 || axis == -rank);
}

}  // namespace

bool gathers_codes(const graph::Node& node, const graph::QuantizedConstant& constant) {
  return std::ranges::is_sorted(constant.axes) && gathers_first(node, constant.axes.size());
}

bool gathers_rows(const graph::Node& node, const graph::PackedRows& rows) {
  return !rows.transposed && gathers_first(node, 2);
}

std::span<const OperatorRow> index_operators() {
  static constexpr OperatorRow kRows[] = {
      {"Gather", gather, Takes::kAll, graph::kOnnxDomain, 0},
      {"GatherElements", gather_elements},
      {"GatherND", gather_nd},
      {"NonZero", non_zero},
      {"ScatterElements", scatter_elements},
      {"ScatterND", scatter_nd},
      {"Trilu", triangle},
  };
  return kRows;
}

}  // namespace crumb::runtime
