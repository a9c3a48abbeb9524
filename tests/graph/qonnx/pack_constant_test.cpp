// Which elements share a scale, and in which format it is kept, against a search over all that could.
#include "graph/qonnx/pack_constant.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>

#include "graph/strided_index.h"
#include "tests/support/capture_copy.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

/// The rows of a matrix are one axis of the tensor, of a vector there is one; its parameters are one number for each element.
struct Blocks {
  std::size_t axis = 0;
  std::int64_t rows = 1, cols = 1, block_rows = 1, block_cols = 1;

  std::int64_t count() const {
    return ((rows + block_rows - 1) / block_rows) * ((cols + block_cols - 1) / block_cols);
  }
  bool is_tensor() const { return block_rows == rows && block_cols == cols; }
  bool is_channel() const { return block_rows == 1 && block_cols == cols; }
  bool is_ragged() const {
    return !is_tensor() && !is_channel() && (block_rows != 1 || cols % block_cols != 0);
  }
};

std::vector<std::pair<float, float>> turned(const QuantizedElements& elements, std::size_t axis) {
  const Ints order = inverse(tensor_axes(elements.shape.size(), axis));
  const auto spread = [&](const Floats& numbers) {
    return permuted(numbers.size() == 1 ? Floats(elements.values.size(), numbers[0]) : numbers,
                    elements.shape, order);
  };
  const Floats scale = spread(elements.scale), zero = spread(elements.zero);
  std::vector<std::pair<float, float>> made;
  for (std::size_t i = 0; i < scale.size(); ++i) made.emplace_back(scale[i], zero[i]);
  return made;
}

/// The largest blocks within which nothing changes.
Blocks blocks_along(const QuantizedElements& elements, std::size_t axis) {
  Blocks made{.axis = axis, .rows = elements.shape.size() == 1 ? 1 : elements.shape[axis]};
  made.cols = static_cast<std::int64_t>(elements.values.size()) / made.rows;
  const auto parameters = turned(elements, axis);
  const auto at = [&](std::int64_t row, std::int64_t col) {
    return parameters[static_cast<std::size_t>(row * made.cols + col)];
  };
  const auto all = [&](auto same) {
    for (std::int64_t row = 0; row < made.rows; ++row) {
      for (std::int64_t col = 0; col < made.cols; ++col) {
        if (!same(row, col)) return false;
      }
    }
    return true;
  };
  for (std::int64_t size = 1; size <= made.cols; ++size) {
    if (all([&](auto row, auto col) { return at(row, col) == at(row, col / size * size); }))
      made.block_cols = size;
  }
  for (std::int64_t size = 1; size <= made.rows; ++size) {
    if (all([&](auto row, auto col) { return at(row, col) == at(row / size * size, col); }))
      made.block_rows = size;
  }
  if (made.block_cols == made.cols && made.block_rows < made.rows) made.block_rows = 1;  // channels
  return made;
}

bool varies_along(const QuantizedElements& elements, std::size_t axis) {
  const Blocks blocks = blocks_along(elements, axis);
  const auto parameters = turned(elements, axis);
  for (std::size_t i = static_cast<std::size_t>(blocks.cols); i < parameters.size(); ++i) {
    if (parameters[i] != parameters[i - static_cast<std::size_t>(blocks.cols)]) return true;
  }
  return false;
}

Blocks best_blocks(const QuantizedElements& elements, std::size_t output_axis) {
  Blocks best = blocks_along(elements, output_axis);
  if (best.is_tensor() || best.is_channel()) return best;
  for (std::size_t axis = 0; axis < elements.shape.size(); ++axis) {
    if (axis == output_axis || !varies_along(elements, axis)) continue;
    const Blocks other = blocks_along(elements, axis);
    const bool is_tidier = other.count() == best.count() && best.is_ragged() && !other.is_ragged();
    if (other.count() < best.count() || is_tidier) best = other;
  }
  return best;
}

struct Drawn {
  QuantizedElements elements;
  ScaleFormat scale = ScaleFormat::kF16;
  ZeroPoint zero = ZeroPoint::kNone;
};

/// Integers of 4 bits whose scales and zero points change along some axes, there in runs.
Drawn draw(std::mt19937& engine) {
  const auto whole = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); };
  Drawn drawn;
  QuantizedElements& made = drawn.elements;
  const int rank = whole(1, 3);
  for (int i = 0; i < rank; ++i) made.shape.push_back(whole(1, 6));
  std::size_t count = 1;
  for (const std::int64_t size : made.shape) count *= static_cast<std::size_t>(size);
  Ints runs;  // 0: one for the whole axis
  for (int i = 0; i < rank; ++i) runs.push_back(whole(0, 1) == 0 ? 0 : whole(1, 3));
  const int formats = whole(0, 2), zeros = whole(0, 2);
  drawn.scale =
      std::array{ScaleFormat::kF16, ScaleFormat::kBF16, ScaleFormat::kF32}[static_cast<std::size_t>(formats)];
  drawn.zero =
      std::array{ZeroPoint::kNone, ZeroPoint::kInteger, ZeroPoint::kFloat}[static_cast<std::size_t>(zeros)];
  const float unit = std::array{0.25F, 0x1p-60F, 0.1F}[static_cast<std::size_t>(formats)];
  std::map<Ints, std::pair<float, float>> parameters;
  for (std::size_t i = 0; i < count; ++i) {
    Ints block;
    std::size_t rest = i;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto size = static_cast<std::size_t>(made.shape[static_cast<std::size_t>(axis)]);
      const std::int64_t run = runs[static_cast<std::size_t>(axis)];
      block.push_back(run == 0 ? 0 : static_cast<std::int64_t>(rest % size) / run);
      rest /= size;
    }
    if (!parameters.contains(block)) {
      const float scale = std::ldexp(unit, whole(0, 3));
      const float zero = zeros == 0   ? 0.0F
                         : zeros == 1 ? static_cast<float>(whole(-8, 7))
                                      : static_cast<float>(whole(-2, 2)) + 0.25F;
      parameters[block] = {scale, zero};
    }
    const auto [scale, zero] = parameters[block];
    made.integers.push_back(static_cast<float>(whole(-8, 7)));
    made.scale.push_back(scale);
    made.zero.push_back(zero);
    made.values.push_back((made.integers.back() - zero) * scale);
  }
  if (std::ranges::all_of(made.zero, [](float z) { return z == 0; })) drawn.zero = ZeroPoint::kNone;
  if (whole(0, 1) == 0 && std::ranges::count(made.scale, made.scale[0]) == static_cast<std::ptrdiff_t>(count))
    made.scale.resize(1);
  if (whole(0, 1) == 0 && std::ranges::count(made.zero, made.zero[0]) == static_cast<std::ptrdiff_t>(count))
    made.zero.resize(1);
  return drawn;
}

CodeFormat int4() { return {.number = find_number_format("int4")}; }

TEST_CASE("pack: parameters are shared as widely as can be") {
  std::mt19937 engine(7);
  std::array<std::size_t, 4> met{};
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const Drawn drawn = draw(engine);
    const QuantizedElements& elements = drawn.elements;
    CAPTURE(elements.shape);
    CAPTURE(elements.scale);
    const std::size_t axis = std::uniform_int_distribution<std::size_t>(0, elements.shape.size() - 1)(engine);
    const auto packed = pack_constant(elements, int4(), axis);
    const Blocks best = best_blocks(elements, axis);
    const bool by_blocks = !best.is_tensor() && !best.is_channel();
    REQUIRE(packed);
    CHECK(packed->value().to_floats() == elements.values);
    Floats levels = levels_of(*packed);
    for (std::size_t k = 0; k < levels.size(); ++k)
      levels[k] += elements.zero.size() == 1 ? elements.zero[0] : elements.zero[k];
    CHECK(levels == elements.integers);
    CHECK(packed->axes == tensor_axes(elements.shape.size(), best.axis));
    const Encoding& encoding = packed->tensor->encoding;
    CHECK(static_cast<std::int64_t>(packed->tensor->layout.blocks()) == best.count());
    CHECK(static_cast<std::int64_t>(encoding.block_rows) == best.block_rows);
    CHECK(static_cast<std::int64_t>(encoding.block_cols) == best.block_cols);
    CHECK(encoding.zero == drawn.zero);
    CHECK(encoding.scale == (by_blocks ? drawn.scale : ScaleFormat::kF32));
    const bool is_group = by_blocks && best.block_rows == 1;
    CHECK((packed->tensor->spec.find(":group=") != std::string::npos) == is_group);
    CHECK((packed->tensor->spec.find(":block=") != std::string::npos) == (by_blocks && !is_group));
    ++met[best.is_tensor() ? 0 : best.is_channel() ? 1 : is_group ? 2 : 3];
  }
  for (const std::size_t count : met) CHECK(count > 100);
}

TEST_CASE("pack: what no tensor of codes holds") {
  const QuantizedElements good{
      .shape = {2, 2}, .values = {1, -2, 3, 0}, .integers = {1, -2, 3, 0}, .scale = {1}, .zero = {0}};
  const auto packs = [&](auto change, const CodeFormat& format = int4()) {
    QuantizedElements elements = good;
    change(elements);
    return pack_constant(elements, format, 0).has_value();
  };
  CHECK(packs([](auto&) {}));
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    CHECK_FALSE(packs([&](auto& e) { e.values[3] = bad; }));
    CHECK_FALSE(packs([&](auto& e) { e.scale = {bad}; }));
    CHECK_FALSE(packs([&](auto& e) { e.zero = {bad}; }));
  }
  CHECK_FALSE(packs([](auto& e) { e.scale = {0}; }));
  CHECK_FALSE(packs([](auto& e) { e.scale = {-1}; }));
  CHECK_FALSE(packs([](auto& e) { e.values[0] = 2; }));  // not what the integer says
  const auto with_first = [&](float integer, const CodeFormat& format) {
    return packs([&](auto& e) { e.integers[0] = e.values[0] = integer; }, format);
  };
  const CodeFormat narrow{.number = find_number_format("int4"), .range = Range::kNarrow};
  for (const auto& [integer, in_full, in_narrow] :
       {std::tuple(7.0F, true, true), std::tuple(8.0F, false, false), std::tuple(-7.0F, true, true),
        std::tuple(-8.0F, true, false), std::tuple(-9.0F, false, false), std::tuple(0.5F, false, false)}) {
    CAPTURE_COPY(integer);
    CHECK(with_first(integer, int4()) == in_full);
    CHECK(with_first(integer, narrow) == in_narrow);
  }
  // A grid without zero points.
  const CodeFormat binary{.number = find_number_format("binary")};
  const auto signs = [](float zero) {
    return [=](auto& e) {
      e.integers = {1, -1, 1, -1};
      e.values = {1 - zero, -1 - zero, 1 - zero, -1 - zero};
      e.zero = {zero};
    };
  };
  CHECK(packs(signs(0), binary));
  CHECK_FALSE(packs(signs(1), binary));
  CHECK_FALSE(pack_constant({.shape = {0, 2}, .scale = {1}, .zero = {0}}, int4(), 0));
  const auto number =
      pack_constant({.shape = {}, .values = {3}, .integers = {3}, .scale = {1}, .zero = {0}}, int4(), 0);
  REQUIRE(number);
  CHECK(number->value().to_floats() == Floats{3});
  CHECK(number->axes.empty());
}

TEST_CASE("pack: minifloats by their values") {
  const CodeFormat e2m1{.number = find_number_format("e2m1")};
  const auto packs = [&](const Floats& values, const Floats& scale) {
    const auto made =
        pack_constant({.shape = {2, 2}, .values = values, .scale = scale, .zero = {0}}, e2m1, 1);
    if (made) CHECK(made->value().to_floats() == values);
    return made.has_value();
  };
  CHECK(packs({0.5F, -6, 1.5F, 0}, {1}));
  CHECK(packs({0.25F, -3, 0.75F, 2}, {0.5F}));
  CHECK(packs({0.25F, -6, 0.75F, 4}, {0.5F, 1, 0.5F, 1}));
  CHECK_FALSE(packs({0.5F, -6, 1.25F, 0}, {1}));
  CHECK_FALSE(packs({0.5F, -7, 1.5F, 0}, {1}));
}

}  // namespace
}  // namespace crumb::graph
