// Reshapes, and moves elements.
#include <algorithm>
#include <numeric>

#include "graph/strided_index.h"
#include "runtime/ops/broadcast.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/copy_by_index.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

// Sums and products of these stay within 64 bits.
constexpr std::int64_t kMostPad = std::int64_t{1} << 40, kMostBlock = 1 << 15;

/// The numbers of an attribute, or of the input that replaced it in later versions.
Ints steering(const Call& call, const std::optional<Ints>& attribute, std::size_t input) {
  if (attribute) return *attribute;
  return call.has(input) ? call.ints(input) : Ints{};
}

void give_reshaped(Call& call, Ints shape) {
  const auto count = graph::count_elements(shape);
  const Array& x = call.in(0);
  if (!count.ok() || count.value() != static_cast<std::int64_t>(x.size()))
    call.fail("cannot give " + text_of(x) + " the shape " + graph::text_of(shape));
  call.give(0, x.reshaped(std::move(shape)));
}

/// 0 keeps a size (unless `allowzero`), -1 is what is left.
Kernel reshape(const NodeFacts& facts) {
  const auto attribute = facts.ints("shape");
  const bool allows_zero = facts.int_or("allowzero", 0) != 0;
  return [=](Call& call) {
    Ints shape = steering(call, attribute, 1);
    const Array& x = call.in(0);
    std::int64_t known = 1;
    std::size_t open = shape.size();
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 0 && !allows_zero && static_cast<std::int64_t>(i) < x.rank()) shape[i] = x.shape()[i];
      if (shape[i] == -1 && open == shape.size()) {
        open = i;
      } else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i], &known)) {
        call.fail("cannot give " + text_of(x) + " the shape " + graph::text_of(shape));
      }
    }
    if (open < shape.size()) shape[open] = known == 0 ? 0 : static_cast<std::int64_t>(x.size()) / known;
    give_reshaped(call, std::move(shape));
  };
}

Kernel flatten(const NodeFacts& facts) {
  const std::int64_t requested = facts.int_or("axis", 1);
  return [requested](Call& call) {
    const Ints& shape = call.in(0).shape();
    const auto rank = call.in(0).rank();
    const auto axis =
        static_cast<std::size_t>(requested == rank ? requested : call.usual_axis(requested, rank));
    give_reshaped(call, {product_of(shape, 0, axis), product_of(shape, axis, shape.size())});
  };
}

Kernel squeeze(const NodeFacts& facts) {
  const auto attribute = facts.ints("axes");
  return [attribute](Call& call) {
    const Ints& shape = call.in(0).shape();
    std::vector<bool> goes(shape.size());
    const Ints axes = steering(call, attribute, 1);
    for (const std::int64_t axis : axes)
      goes[static_cast<std::size_t>(call.usual_axis(axis, call.in(0).rank()))] = true;
    Ints made;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (axes.empty() ? shape[i] != 1 : !goes[i]) made.push_back(shape[i]);
    }
    give_reshaped(call, std::move(made));
  };
}

Kernel unsqueeze(const NodeFacts& facts) {
  const auto attribute = facts.ints("axes");
  return [attribute](Call& call) {
    const Ints axes = steering(call, attribute, 1);
    const Ints& shape = call.in(0).shape();
    const auto rank = static_cast<std::int64_t>(shape.size() + axes.size());
    Ints made(static_cast<std::size_t>(rank), -1);
    for (const std::int64_t axis : axes) {
      auto& size = made[static_cast<std::size_t>(call.usual_axis(axis, rank))];
      if (size == 1) call.fail("axis " + std::to_string(axis) + " is named twice");
      size = 1;
    }
    auto next = shape.begin();
    for (auto& size : made) {
      if (size == -1) size = *next++;
    }
    give_reshaped(call, std::move(made));
  };
}

/// Makes an array that reads x in steps: `begin` is the first offset in x, `steps` has the step of each
/// output axis.
void gather_strided(Call& call, const Ints& shape, const Ints& steps, std::int64_t begin) {
  const Array x = call.in(0);
  Array& made = call.make(0, x.type(), shape);
  with_width(x, [&]<class T>() {
    const T* const from = reinterpret_cast<const T*>(x.data());
    T* to = reinterpret_cast<T*>(made.writable_data());
    for_offsets(shape, steps, begin, [&](std::int64_t at) { *to++ = from[at]; });
  });
}

Kernel transpose(const NodeFacts& facts) {
  const auto attribute = facts.ints("perm");
  return [attribute](Call& call) {
    const Array& x = call.in(0);
    Ints perm(x.shape().size());
    std::iota(perm.rbegin(), perm.rend(), 0);
    if (attribute) perm = *attribute;
    if (!graph::is_permutation(perm, x.shape().size()))
      call.fail("perm " + graph::text_of(perm) + " is no order of the axes of " + text_of(x));
    const Ints strides = strides_of(x.shape());
    Ints steps;
    for (const std::int64_t axis : perm) steps.push_back(strides[static_cast<std::size_t>(axis)]);
    gather_strided(call, graph::permuted_shape(x.shape(), perm), steps, 0);
  };
}

Kernel expand(const NodeFacts&) {
  return [](Call& call) {
    const Array& x = call.in(0);
    const Ints requested = call.ints(1);
    const Ints* shapes[] = {&x.shape(), &requested};
    const Ints whole = broadcast_shape(call, shapes);
    const Ints own = strides_of(x.shape());
    Ints steps(whole.size(), 0);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (x.shape()[i] != 1) steps[whole.size() - own.size() + i] = own[i];
    }
    gather_strided(call, whole, steps, 0);
  };
}

Kernel concat(const NodeFacts& facts) {
  const std::int64_t requested = facts.int_or("axis", 1);  // before version 4 it had a default
  return [requested](Call& call) {
    const Array& first = call.in(0);
    const auto axis = static_cast<std::size_t>(call.usual_axis(requested, first.rank()));
    Ints shape = first.shape();
    shape[axis] = 0;
    for (std::size_t i = 0; i < call.inputs(); ++i) {
      const Array& x = call.in(i);
      Ints other = x.shape();
      if (x.rank() != first.rank() || x.type() != first.type())
        call.fail("cannot join " + text_of(first) + " and " + text_of(x));
      shape[axis] += other[axis];
      other[axis] = first.shape()[axis];
      if (other != first.shape()) call.fail("cannot join " + text_of(first) + " and " + text_of(x));
    }
    const std::size_t width = bytes_of(first.carrier());
    const auto outer = static_cast<std::size_t>(product_of(shape, 0, axis));
    const std::size_t inner = static_cast<std::size_t>(product_of(shape, axis + 1, shape.size())) * width;
    const std::size_t row = static_cast<std::size_t>(shape[axis]) * inner;
    const ElementType type = first.type();
    std::byte* const out = call.make(0, type, shape).writable_data();
    std::size_t at = 0;
    for (std::size_t i = 0; i < call.inputs(); ++i) {
      const Array& x = call.in(i);
      const std::size_t part = static_cast<std::size_t>(x.shape()[axis]) * inner;
      for (std::size_t o = 0; o < outer && part > 0; ++o)
        std::memcpy(out + o * row + at, x.data() + o * part, part);
      at += part;
    }
  };
}

/// Elements [begin, begin + size) of an axis, as a new array.
Array part_of(const Array& x, std::size_t axis, std::int64_t begin, std::int64_t size) {
  Ints shape = x.shape();
  const auto outer = static_cast<std::size_t>(product_of(shape, 0, axis));
  const std::size_t inner =
      static_cast<std::size_t>(product_of(shape, axis + 1, shape.size())) * bytes_of(x.carrier());
  const std::size_t row = static_cast<std::size_t>(shape[axis]) * inner,
                    part = static_cast<std::size_t>(size) * inner;
  shape[axis] = size;
  Array made(x.type(), shape);
  for (std::size_t o = 0; o < outer && part > 0; ++o)
    std::memcpy(made.writable_data() + o * part, x.data() + o * row + static_cast<std::size_t>(begin) * inner,
                part);
  return made;
}

/// Splits by sizes, or into as many equal parts as there are outputs; the last may then be smaller.
Kernel split(const NodeFacts& facts) {
  const auto attribute = facts.ints("split");
  const std::int64_t requested = facts.int_or("axis", 0);
  return [=](Call& call) {
    const Array x = call.in(0);
    const auto axis = static_cast<std::size_t>(call.usual_axis(requested, x.rank()));
    Ints sizes = steering(call, attribute, 1);
    const auto parts = static_cast<std::int64_t>(call.outputs());
    if (sizes.empty()) {
      const std::int64_t each = (x.dim(static_cast<std::int64_t>(axis)) + parts - 1) / parts;
      std::int64_t left = x.shape()[axis];
      for (std::int64_t i = 0; i < parts; ++i, left -= sizes.back()) sizes.push_back(std::min(each, left));
    }
    const bool fits = static_cast<std::int64_t>(sizes.size()) == parts &&
                      std::ranges::all_of(sizes, [](std::int64_t size) { return size >= 0; }) &&
                      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == x.shape()[axis];
    if (!fits)
      call.fail("cannot split " + text_of(x) + " into " + std::to_string(parts) + " parts of " +
                graph::text_of(sizes));
    std::int64_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); at += sizes[i++]) call.give(i, part_of(x, axis, at, sizes[i]));
  };
}

Kernel slice(const NodeFacts& facts) {
  const auto starts_attribute = facts.ints("starts"), ends_attribute = facts.ints("ends"),
             axes_attribute = facts.ints("axes");
  return [=](Call& call) {
    const Array& x = call.in(0);
    const Ints starts = steering(call, starts_attribute, 1), ends = steering(call, ends_attribute, 2);
    Ints axes = steering(call, axes_attribute, 3),
         strides = call.has(4) ? call.ints(4) : Ints(starts.size(), 1);
    if (axes.empty() && !starts.empty()) {
      axes.resize(starts.size());
      std::iota(axes.begin(), axes.end(), 0);
    }
    if (ends.size() != starts.size() || axes.size() != starts.size() || strides.size() != starts.size())
      call.fail("starts, ends, axes and steps differ in number");
    Ints shape = x.shape(), steps = strides_of(shape);
    std::int64_t begin = 0;
    const Ints own = steps;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const auto axis = static_cast<std::size_t>(call.usual_axis(axes[i], x.rank()));
      const std::int64_t size = x.shape()[axis], step = strides[i];
      if (step == 0) call.fail("a step of 0");
      const auto place = [&](std::int64_t at, std::int64_t least, std::int64_t most) {
        return std::clamp(at < 0 && at >= -size ? at + size : at < 0 ? std::int64_t{-1} : at, least, most);
      };
      const std::int64_t first = step > 0 ? place(starts[i], 0, size) : place(starts[i], -1, size - 1);
      const std::int64_t last = step > 0 ? place(ends[i], 0, size) : place(ends[i], -1, size - 1);
      const std::int64_t reach = step > 0 ? last - first : first - last;
      const std::uint64_t stride =
          step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
      shape[axis] =
          reach <= 0 ? 0 : 1 + static_cast<std::int64_t>((static_cast<std::uint64_t>(reach) - 1) / stride);
      if (shape[axis] > 1) steps[axis] = own[axis] * step;
      if (shape[axis] > 0) begin += own[axis] * first;
    }
    gather_strided(call, shape, steps, begin);
  };
}

/// The index in an input of `size` elements that index `at` of the padded axis takes; -1: the constant.
std::int64_t padded_index(std::int64_t at, std::int64_t size, char mode) {
  if (at >= 0 && at < size) return at;
  if (mode == 'c') return -1;
  if (mode == 'e') return at < 0 ? 0 : size - 1;
  if (mode == 'w') return (at % size + size) % size;
  if (size == 1) return 0;
  const std::int64_t period = 2 * (size - 1), folded = (at % period + period) % period;
  return folded < size ? folded : period - folded;
}

/// The padding before the first element of each axis, and the shape with the padding of both ends.
struct Padding {
  Ints before, shape;
};

Padding padding_of(const Call& call, const std::optional<Ints>& attribute, bool repeats) {
  const Array& x = call.in(0);
  const Ints pads = steering(call, attribute, 1);
  Ints axes(static_cast<std::size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has(3)) axes = call.ints(3);
  if (pads.size() != 2 * axes.size()) call.fail("pads " + graph::text_of(pads) + " do not fit " + text_of(x));
  Padding made{Ints(static_cast<std::size_t>(x.rank()), 0), x.shape()};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(call.usual_axis(axes[i], x.rank()));
    const std::int64_t before = pads[i], behind = pads[axes.size() + i];
    if (std::min(before, behind) < -kMostPad || std::max(before, behind) > kMostPad)
      call.fail("pads " + graph::text_of(pads) + " are too large");
    made.before[axis] = before;
    made.shape[axis] += before + behind;
    if (made.shape[axis] < 0)
      call.fail("pads " + graph::text_of(pads) + " take more than there is of " + text_of(x));
    if (x.shape()[axis] == 0 && made.shape[axis] > 0 && repeats)
      call.fail("nothing to repeat in " + text_of(x));
  }
  return made;
}

Kernel pad(const NodeFacts& facts) {
  const std::string mode = facts.text_or("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    facts.fail("mode: expected constant, edge, reflect or wrap, found " + mode);
  auto attribute = facts.ints("pads");
  if (!attribute) attribute = facts.ints("paddings");
  const float number = facts.float_or("value", 0);
  return [=](Call& call) {
    const Array x = call.in(0);
    const Padding padding = padding_of(call, attribute, mode != "constant");
    const Ints& shape = padding.shape;
    if (call.has(2) && call.in(2).size() != 1)
      call.fail("its value: expected one number, found " + text_of(call.in(2)));
    if (shape == x.shape() && std::ranges::all_of(padding.before, [](std::int64_t n) { return n == 0; }))
      return call.give(0, x.reshaped(shape));
    std::vector<Ints> offsets(shape.size());
    const Ints strides = strides_of(x.shape());
    for (std::size_t i = 0; i < shape.size(); ++i) {
      for (std::int64_t at = 0; at < shape[i]; ++at) {
        const std::int64_t index = padded_index(at - padding.before[i], x.shape()[i], mode[0]);
        offsets[i].push_back(index < 0 ? kNoElement : index * strides[i]);
      }
    }
    Array& made = call.make(0, x.type(), shape);
    with_carrier(x.carrier(), [&]<class T>() {
      T fill = converted<T>(number);
      if (call.has(2)) fill = call.values<T>(2, x.carrier())[0];
      copy_by_index<T>(x.values<T>().data(), offsets, fill, made.writable<T>());
    });
  };
}

Kernel tile(const NodeFacts& facts) {
  if (facts.version() < 6) facts.fail("its form before version 6 is not there");
  return [](Call& call) {
    const Array x = call.in(0);
    const Ints times = call.ints(1);
    if (times.size() != x.shape().size() || std::ranges::any_of(times, [](std::int64_t n) { return n < 0; }))
      call.fail("cannot repeat " + text_of(x) + " " + graph::text_of(times) + " times");
    Ints shape = x.shape(), whole, steps;
    const Ints strides = strides_of(shape);
    for (std::size_t i = 0; i < times.size(); ++i) {
      whole.insert(whole.end(), {times[i], shape[i]});
      steps.insert(steps.end(), {0, strides[i]});
      if (__builtin_mul_overflow(shape[i], times[i], &shape[i])) call.fail("a value that is too large");
    }
    Array& made = call.make(0, x.type(), shape);
    with_width(x, [&]<class T>() {
      const T* const from = reinterpret_cast<const T*>(x.data());
      T* to = reinterpret_cast<T*>(made.writable_data());
      for_offsets(whole, steps, 0, [&](std::int64_t at) { *to++ = from[at]; });
    });
  };
}

/// [N, C, H, W], where blocks of channels become squares of elements. DCR: the index in the block is before
/// the channel's; CRD: behind it.
Kernel depth_to_space(const NodeFacts& facts) {
  const std::int64_t block = facts.int_or("blocksize", 0);
  const std::string mode = facts.text_or("mode", "DCR");
  if (block < 1 || block > kMostBlock || (mode != "DCR" && mode != "CRD"))
    facts.fail("expected blocks and a mode DCR or CRD");
  return [=](Call& call) {
    const Array& x = call.in(0);
    if (x.rank() != 4 || x.dim(1) % (block * block) != 0) call.fail("cannot take " + text_of(x));
    const std::int64_t n = x.dim(0), c = x.dim(1) / block / block, h = x.dim(2), w = x.dim(3);
    const Ints inner = mode == "DCR" ? Ints{n, block, block, c, h, w} : Ints{n, c, block, block, h, w};
    const Ints order = mode == "DCR" ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3};
    const Ints strides = strides_of(inner);
    Ints steps, shape;
    for (const std::int64_t axis : order) {
      steps.push_back(strides[static_cast<std::size_t>(axis)]);
      shape.push_back(inner[static_cast<std::size_t>(axis)]);
    }
    gather_strided(call, shape, steps, 0);
    call.give(0, Array(call.made(0)).reshaped({n, c, h * block, w * block}));
  };
}

Kernel space_to_depth(const NodeFacts& facts) {
  const std::int64_t block = facts.int_or("blocksize", 0);
  if (block < 1 || block > kMostBlock) facts.fail("expected blocks");
  return [=](Call& call) {
    const Array& x = call.in(0);
    if (x.rank() != 4 || x.dim(2) % block != 0 || x.dim(3) % block != 0)
      call.fail("cannot take " + text_of(x));
    const std::int64_t n = x.dim(0), c = x.dim(1), h = x.dim(2) / block, w = x.dim(3) / block;
    const Ints strides = strides_of({n, c, h, block, w, block});
    const Ints shape{n, block, block, c, h, w},
        steps{strides[0], strides[3], strides[5], strides[1], strides[2], strides[4]};
    gather_strided(call, shape, steps, 0);
    call.give(0, Array(call.made(0)).reshaped({n, c * block * block, h, w}));
  };
}

}  // namespace

std::span<const OperatorRow> layout_operators() {
  static constexpr OperatorRow kRows[] = {
      {"Reshape", reshape},
      {"Flatten", flatten},
      {"Squeeze", squeeze},
      {"Unsqueeze", unsqueeze},
      {"Transpose", transpose},
      {"Expand", expand},
      {"Concat", concat},
      {"Split", split},
      {"Slice", slice},
      {"Pad", pad},
      {"Tile", tile},
      {"DepthToSpace", depth_to_space},
      {"SpaceToDepth", space_to_depth},
  };
  return kRows;
}

}  // namespace crumb::runtime
