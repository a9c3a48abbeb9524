// What moves elements and changes none.
#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

/// view, flatten, unflatten, ...: the recorded shapes say it all.
void reshape(Op& op) { op.set(op.net.reshape(op.tensor("self"), op.seen("self").sizes, op.result().sizes)); }

void flatten(Op& op) {
  const std::int64_t rank = op.seen("self").rank();
  const bool usual = rank > 1 && op.axis("start_dim", rank) == 1 && op.axis("end_dim", rank) == rank - 1;
  if (!usual) return reshape(op);
  op.set(rank == 2 ? op.tensor("self")
                   : op.net.add("Flatten", {op.tensor("self")}, {{"axis", std::int64_t{1}}}));
}

void unsqueeze(Op& op) { op.set(op.net.unsqueeze(op.tensor("self"), {op.axis("dim", op.result().rank())})); }

void squeeze(Op& op) {
  const Seen x = op.seen("self");
  Ints axes;
  const Ints asked = op.has("dim") ? op.axes("dim", x.rank()) : axes_up_to(x.rank());
  for (const std::int64_t axis : asked) {
    if (x.rank() > 0 && x.sizes[static_cast<std::size_t>(axis)].is(1)) axes.push_back(axis);
  }
  op.set(op.net.squeeze(op.tensor("self"), axes));
}

void swap_axes(Op& op, const char* a, const char* b) {
  const std::int64_t rank = op.seen("self").rank();
  Ints order = axes_up_to(rank);
  if (rank > 0)
    std::swap(order[static_cast<std::size_t>(op.axis(a, rank))],
              order[static_cast<std::size_t>(op.axis(b, rank))]);
  op.set(op.net.transpose(op.tensor("self"), order));
}
void transpose(Op& op) { swap_axes(op, "dim0", "dim1"); }
void swapaxes(Op& op) { swap_axes(op, "axis0", "axis1"); }

void swap_last(Op& op) {
  const std::int64_t rank = op.seen("self").rank();
  Ints order = axes_up_to(rank);
  if (rank > 1) std::swap(order[order.size() - 1], order[order.size() - 2]);
  op.set(op.net.transpose(op.tensor("self"), order));
}
void reverse_axes(Op& op) {
  Ints order = axes_up_to(op.seen("self").rank());
  std::ranges::reverse(order);
  op.set(op.net.transpose(op.tensor("self"), order));
}

void permute(Op& op) {
  const std::int64_t rank = op.seen("self").rank();
  Ints order = op.ints("dims");
  for (std::int64_t& axis : order) axis += axis < 0 ? rank : 0;
  op.set(op.net.transpose(op.tensor("self"), order));
}

void movedim(Op& op) {
  const std::int64_t rank = op.seen("self").rank();
  const Ints from = op.ints("source"), to = op.ints("destination");
  Ints order(static_cast<std::size_t>(rank), -1);
  std::vector<bool> used(static_cast<std::size_t>(rank));
  const auto usual = [&](std::int64_t axis) {
    return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  };
  for (std::size_t i = 0; i < from.size(); ++i) {
    order[usual(to[i])] = static_cast<std::int64_t>(usual(from[i]));
    used[usual(from[i])] = true;
  }
  std::size_t next = 0;
  for (std::int64_t& axis : order) {
    if (axis >= 0) continue;
    while (used[next]) ++next;
    axis = static_cast<std::int64_t>(next++);
  }
  op.set(op.net.transpose(op.tensor("self"), order));
}

void cat(Op& op) {
  const std::vector<Seen> seen = op.seen_all("tensors");
  const Names names = op.tensors("tensors");
  const Seen result = op.result();
  Names parts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (seen[i].rank() == 1 && seen[i].sizes[0].is(0) && result.rank() != 1)
      continue;  // LibTorch skips those
    parts.push_back(seen[i].type == result.type ? names[i] : op.net.cast(names[i], result.type));
  }
  const std::int64_t axis = op.axis("dim", result.rank());
  op.set(parts.size() == 1 ? parts[0] : op.net.add("Concat", parts, {{"axis", axis}}));
}

void stack(Op& op) {
  const std::vector<Seen> seen = op.seen_all("tensors");
  Names parts = op.tensors("tensors");
  const std::int64_t axis = op.axis("dim", op.result().rank());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (seen[i].type != op.result().type) parts[i] = op.net.cast(parts[i], op.result().type);
    parts[i] = op.net.unsqueeze(parts[i], {axis});
  }
  op.set(parts.size() == 1 ? parts[0] : op.net.add("Concat", parts, {{"axis", axis}}));
}

/// chunk, split, split_with_sizes, tensor_split: the recorded parts say where.
void split(Op& op) {
  const Seen x = op.seen("self");
  const std::int64_t axis = op.axis("dim", x.rank());
  std::vector<Number> sizes;
  for (const Seen& part : op.seen_list()) sizes.push_back(part.sizes[static_cast<std::size_t>(axis)]);
  if (sizes.size() == 1) return op.set_list({op.tensor("self")});
  op.set_list(
      op.net.add_many("Split", {op.tensor("self"), op.net.sizes(sizes)}, {{"axis", axis}}, sizes.size()));
}

void unbind(Op& op) {
  const std::int64_t axis = op.axis("dim", op.seen("self").rank());
  const std::size_t count = op.list_length();
  if (!op.seen("self").sizes[static_cast<std::size_t>(axis)].fixed()) op.fail("it takes the batch apart");
  Names parts;
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back(op.net.add("Gather", {op.tensor("self"), op.net.index(static_cast<std::int64_t>(i))},
                               {{"axis", axis}}));
  }
  op.set_list(parts);
}

/// To the recorded sizes; an axis that has its size already is asked for 1, which leaves it.
void expand(Op& op) {
  const Seen x = op.seen("self"), y = op.result();
  std::vector<Number> target = y.sizes;
  const std::size_t more = y.sizes.size() - x.sizes.size();
  bool same = more == 0;
  for (std::size_t i = 0; i < x.sizes.size(); ++i) {
    if (x.sizes[i] == y.sizes[more + i]) {
      target[more + i] = {1, 1};
    } else {
      same = false;
    }
  }
  op.set(same ? op.tensor("self") : op.net.add("Expand", {op.tensor("self"), op.net.sizes(target)}));
}

void repeat(Op& op) {
  const std::vector<Number> times = op.numbers(op.kind() == "aten::tile" ? "dims" : "repeats");
  const std::int64_t rank = op.seen("self").rank(), more = op.result().rank() - rank;
  Ints front;
  for (std::int64_t i = 0; i < more; ++i) front.push_back(i);
  std::vector<Number> all(static_cast<std::size_t>(op.result().rank()) - times.size(), Number{1, 1});
  all.insert(all.end(), times.begin(), times.end());
  op.set(op.net.add("Tile", {op.net.unsqueeze(op.tensor("self"), front), op.net.sizes(all)}));
}

void flip(Op& op) {
  const std::int64_t rank = op.seen("self").rank();
  const Ints axes = op.axes("dims", rank);
  const Ints last(axes.size(), -1), least(axes.size(), std::numeric_limits<std::int64_t>::min() + 1);
  op.set(op.net.add("Slice", {op.tensor("self"), op.net.ints(last), op.net.ints(least), op.net.ints(axes),
                              op.net.ints(last)}));
}

void roll(Op& op) {
  const Seen x = op.seen("self");
  const Ints shifts = op.ints("shifts"), axes = op.ints("dims");
  if (axes.empty()) op.fail("roll without axes");
  std::string y = op.tensor("self");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + x.rank() : axes[i];
    const Number size = x.sizes[static_cast<std::size_t>(axis)];
    if (!size.fixed()) op.fail("it rolls the batch");
    const std::int64_t cut = size.first == 0 ? 0 : ((-shifts[i]) % size.first + size.first) % size.first;
    if (cut == 0) continue;
    y = op.net.add("Concat", {op.net.slice(y, axis, cut, size.first), op.net.slice(y, axis, 0, cut)},
                   {{"axis", axis}});
  }
  op.set(y);
}

constexpr ConversionRow kLayoutRows[] = {
    {"aten::view", reshape},
    {"aten::reshape", reshape},
    {"aten::_unsafe_view", reshape},
    {"aten::_reshape_alias", reshape},
    {"aten::unflatten", reshape},
    {"aten::view_as", reshape},
    {"aten::reshape_as", reshape},
    {"aten::ravel", reshape},
    {"aten::flatten", flatten},
    {"aten::unsqueeze", unsqueeze},
    {"aten::squeeze", squeeze},
    {"aten::transpose", transpose},
    {"aten::swapaxes", swapaxes},
    {"aten::swapdims", transpose},
    {"aten::t", swap_last},
    {"aten::mT", swap_last},
    {"aten::numpy_T", reverse_axes},
    {"aten::permute", permute},
    {"aten::movedim", movedim},
    {"aten::moveaxis", movedim},
    {"aten::cat", cat},
    {"aten::concat", cat},
    {"aten::concatenate", cat},
    {"aten::stack", stack},
    {"aten::chunk", split},
    {"aten::unsafe_chunk", split},
    {"aten::unsafe_split", split},
    {"aten::unsafe_split_with_sizes", split},
    {"aten::split", split},
    {"aten::split_with_sizes", split},
    {"aten::tensor_split", split},
    {"aten::unbind", unbind},
    {"aten::expand", expand},
    {"aten::expand_as", expand},
    {"aten::broadcast_to", expand},
    {"aten::repeat", repeat},
    {"aten::tile", repeat},
    {"aten::flip", flip},
    {"aten::roll", roll},
};

}  // namespace

std::span<const ConversionRow> layout_conversions() { return kLayoutRows; }

}  // namespace crumb::libtorch
