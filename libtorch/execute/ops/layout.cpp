// Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Concat, Tile, Expand and the block permutations.
#include <ATen/ATen.h>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

Ints sizes_of(const at::Tensor& tensor) { return {tensor.sizes().begin(), tensor.sizes().end()}; }

/// The shape that an operator asks for: an input since operator set 5, an attribute before.
Ints wanted_shape(const Call& call) {
  if (auto shape = call.ints(1, "shape")) return *shape;
  call.fail("expected a shape, found neither input 1 nor the attribute");
}

Outputs reshape(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const Ints asked = wanted_shape(call);
  Ints shape = asked;
  const bool zero_is_zero = call.version() >= 14 && call.int_or("allowzero", 0) != 0;
  std::int64_t open = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !zero_is_zero) {
      if (static_cast<std::int64_t>(i) >= x.dim()) {
        call.fail("shape " + graph::text_of(asked) + " copies axis " + std::to_string(i) + " of " +
                  text_of(call.in(0)));
      }
      shape[i] = x.size(static_cast<std::int64_t>(i));
    } else if (shape[i] == -1) {
      if (open >= 0) call.fail("shape " + graph::text_of(asked) + " leaves two sizes open");
      open = static_cast<std::int64_t>(i);
      shape[i] = 1;
    }
  }
  const auto counted = graph::count_elements(shape);
  const std::int64_t count = counted.ok() ? counted.value() : -1;
  const auto refuse = [&]() {
    call.fail("cannot give " + text_of(call.in(0)) + " the shape " + graph::text_of(asked));
  };
  if (open >= 0) {
    if (count <= 0 || x.numel() % count != 0) refuse();
    shape[static_cast<std::size_t>(open)] = x.numel() / count;
  } else if (count != x.numel()) {
    refuse();
  }
  return moved(call, x.reshape(shape));
}

Outputs flatten(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const std::int64_t rank = x.dim(), asked = call.int_or("axis", 1);
  const std::int64_t axis = asked == rank ? rank : usual_axis(call, asked, rank);
  std::int64_t rows = 1, columns = 1;
  for (std::int64_t i = 0; i < rank; ++i) (i < axis ? rows : columns) *= x.size(i);
  return moved(call, x.reshape({rows, columns}));
}

Outputs squeeze(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const auto asked = call.ints(1, "axes");
  if (!asked) return moved(call, x.squeeze());
  const Ints axes = usual_axes(call, *asked, x.dim());
  std::vector<bool> dropped(static_cast<std::size_t>(x.dim()));
  for (const std::int64_t axis : axes) {
    if (x.size(axis) != 1) {
      call.fail("cannot drop axis " + std::to_string(axis) + " of " + text_of(call.in(0)));
    }
    dropped[static_cast<std::size_t>(axis)] = true;
  }
  Ints shape;
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    if (!dropped[static_cast<std::size_t>(i)]) shape.push_back(x.size(i));
  }
  return moved(call, x.reshape(shape));
}

Outputs unsqueeze(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const auto asked = call.ints(1, "axes");
  if (!asked) call.fail("expected axes, found neither input 1 nor the attribute");
  const std::int64_t rank = x.dim() + static_cast<std::int64_t>(asked->size());
  Ints shape(static_cast<std::size_t>(rank));
  for (const std::int64_t axis : usual_axes(call, *asked, rank)) shape[static_cast<std::size_t>(axis)] = -1;
  std::int64_t next = 0;
  for (std::int64_t& size : shape) size = size == -1 ? 1 : x.size(next++);
  return moved(call, x.reshape(shape));
}

Outputs transpose(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  Ints order = first_axes(x.dim());
  std::reverse(order.begin(), order.end());
  if (const auto asked = call.ints_attribute("perm")) {
    expect_length(call, "perm", asked->size(), x.dim());
    order = usual_axes(call, *asked, x.dim());
  }
  return moved(call, x.permute(order));
}

Outputs concat(const Call& call) {
  if (!call.node().has("axis") && call.version() >= 4) call.fail("expected the attribute axis");
  const std::int64_t rank = call.tensor(0).dim();
  const std::int64_t axis = usual_axis(call, call.int_or("axis", 1), rank);
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    expect_rank(call, i, rank);
    for (std::int64_t d = 0; d < rank; ++d) {
      if (call.type(i) != call.type(0) || (d != axis && call.tensor(i).size(d) != call.tensor(0).size(d))) {
        call.fail("cannot join " + text_of(call.in(0)) + " and " + text_of(call.in(i)) + " along axis " +
                  std::to_string(axis));
      }
    }
    parts.push_back(call.tensor(i));
  }
  return moved(call, at::cat(parts, axis));
}

Outputs tile(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  Ints repeats = call.ints(1);
  if (call.version() < 6) {
    const Ints axis = call.ints(2);
    expect_length(call, "tiles", repeats.size(), 1);
    expect_length(call, "axis", axis.size(), 1);
    Ints along(static_cast<std::size_t>(x.dim()), 1);
    along[static_cast<std::size_t>(usual_axis(call, axis[0], x.dim()))] = repeats[0];
    repeats = along;
  }
  expect_length(call, "repeats", repeats.size(), x.dim());
  for (const std::int64_t count : repeats) {
    if (count < 0) call.fail("expected repeats of 0 or more, found " + graph::text_of(repeats));
  }
  return moved(call, x.repeat(repeats));
}

Outputs expand(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const Ints asked = call.ints(1);
  Ints shape = sizes_of(x);
  if (asked.size() > shape.size()) shape.insert(shape.begin(), asked.size() - shape.size(), 1);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::int64_t& size = shape[shape.size() - asked.size() + i];
    if (asked[i] < 0 || (size != 1 && asked[i] != 1 && asked[i] != size)) {
      call.fail("cannot broadcast " + text_of(call.in(0)) + " and the shape " + graph::text_of(asked));
    }
    if (size == 1) size = asked[i];
  }
  return moved(call, x.expand(shape));
}

std::int64_t block_size(const Call& call) {
  expect_rank(call, 0, 4);
  const std::int64_t block = call.int_or("blocksize", 0);
  if (block < 1 || block > (1 << 20)) {
    call.fail("expected a blocksize of 1 or more, found " + std::to_string(block));
  }
  return block;
}

Outputs depth_to_space(const Call& call) {
  const std::int64_t b = block_size(call);
  const at::Tensor& x = call.tensor(0);
  const std::int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  const std::string mode = call.text_or("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") call.fail("expected mode DCR or CRD, found another");
  if (c % (b * b) != 0) {
    call.fail("blocks of " + std::to_string(b) + " do not divide the channels of " + text_of(call.in(0)));
  }
  const std::int64_t out = c / (b * b);
  const at::Tensor blocks = mode == "DCR" ? x.reshape({n, b, b, out, h, w}).permute({0, 3, 4, 1, 5, 2})
                                          : x.reshape({n, out, b, b, h, w}).permute({0, 1, 4, 2, 5, 3});
  return moved(call, blocks.reshape({n, out, h * b, w * b}));
}

Outputs space_to_depth(const Call& call) {
  const std::int64_t b = block_size(call);
  const at::Tensor& x = call.tensor(0);
  const std::int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  if (h % b != 0 || w % b != 0) {
    call.fail("blocks of " + std::to_string(b) + " do not divide " + text_of(call.in(0)));
  }
  const at::Tensor blocks = x.reshape({n, c, h / b, b, w / b, b}).permute({0, 3, 5, 1, 2, 4});
  return moved(call, blocks.reshape({n, c * b * b, h / b, w / b}));
}

constexpr OperatorRow kLayoutRows[] = {
    {"Reshape", reshape},
    {"Flatten", flatten},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Transpose", transpose},
    {"Concat", concat},
    {"Tile", tile},
    {"Expand", expand},
    {"DepthToSpace", depth_to_space},
    {"SpaceToDepth", space_to_depth},
};

}  // namespace

std::span<const OperatorRow> layout_operators() { return kLayoutRows; }

}  // namespace crumb::libtorch
