// A stack of matrices is its matrices, each quantized by itself, bit for bit: in every format, granularity and layout, from the
// quantizer through the packed file and back.
#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "quant/codes/code_layout.h"
#include "quant/codes/spacings.h"
#include "quant/slices/slice_quantizer.h"
#include "tests/formats/crumb_file/samples.h"
#include "tests/support/specs.h"
#include "tests/support/testing.h"

using crumb::QuantizedTensor;
using crumb::QuantizedView;
using crumb::QuantSpec;
using crumb::testing::elements;
using crumb::testing::same_bits;
using crumb::testing::Shape;

namespace {

struct DrawnStack {
  Shape shape;
  std::uint64_t stack_axes = 1;
};

DrawnStack drawn_stack(std::mt19937& random) {
  DrawnStack drawn{.shape = {}, .stack_axes = 1 + random() % 2};
  for (std::uint64_t i = 0; i < drawn.stack_axes; ++i) drawn.shape.push_back(1 + random() % 4);
  drawn.shape.push_back(1 + random() % 21);  // rows, often no whole tile
  drawn.shape.push_back(1 + random() % 37);
  if (random() % 4 == 0) drawn.shape.push_back(1 + random() % 3);
  return drawn;
}

std::uint64_t count_of(const DrawnStack& drawn) {
  std::uint64_t count = 1;
  for (std::uint64_t i = 0; i < drawn.stack_axes; ++i) count *= drawn.shape[i];
  return count;
}

std::span<const float> share(const std::vector<float>& all, std::uint64_t count, std::uint64_t index) {
  return std::span(all).subspan(all.size() / count * index, all.size() / count);
}

std::vector<float> all_values(const QuantizedView& view) {
  std::vector<float> values(view.layout.matrix.size());
  dequantize(view, values);
  return values;
}

/// What differs between the stack and its matrices; empty where nothing does.
std::string stack_difference(const QuantSpec& spec, const DrawnStack& drawn, const std::vector<float>& x) {
  const QuantizedTensor stack =
      crumb::quantize(spec, x, drawn.shape, {.name = "w", .stack_axes = drawn.stack_axes});
  const Shape of_one(drawn.shape.begin() + static_cast<std::ptrdiff_t>(drawn.stack_axes), drawn.shape.end());
  const std::uint64_t count = count_of(drawn);
  const std::vector<float> values = all_values(stack.view()), gaps = spacings(stack);
  const crumb::RowDecoder decoder(stack.view());
  std::uint64_t saturated = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const QuantizedTensor alone = crumb::quantize(spec, share(x, count, i), of_one, {.name = "w"});
    saturated += alone.saturated_scales;
    const std::vector<float> wanted = all_values(alone.view());
    if (!same_bits(wanted, share(values, count, i))) return "values differ";
    const QuantizedView one = matrix_of(stack.view(), i);
    if (!std::ranges::equal(one.codes, alone.codes) || !std::ranges::equal(one.scales, alone.scales) ||
        !std::ranges::equal(one.zeros, alone.zeros) || !std::ranges::equal(one.codebook, alone.codebook) ||
        !std::ranges::equal(one.tensor_scales, alone.tensor_scales))
      return "a part of a matrix differs";
    if (!same_bits(all_values(one), wanted)) return "a matrix of the stack decodes to other values";
    if (!same_bits(spacings(alone), share(gaps, count, i))) return "spacings differ";
    const std::uint64_t rows = stack.layout.matrix_rows, cols = stack.layout.matrix.cols;
    for (std::uint64_t k = 0; k < rows * cols; ++k) {
      const float ref = decoder.value_ref(i * rows + k / cols, k % cols);
      if (std::memcmp(&ref, &wanted[k], sizeof ref) != 0) return "value_ref() differs";
    }
  }
  if (saturated != stack.saturated_scales) return "saturated scales are counted otherwise";
  const QuantizedTensor tiles = in_layout(stack.view(), stack.spec, crumb::CodeLayout::kTiles);
  if (!same_bits(all_values(tiles.view()), values)) return "tiles decode to other values";
  const QuantizedTensor back = in_layout(tiles.view(), stack.spec, crumb::CodeLayout::kRows);
  if (back.codes != stack.codes || back.scales != stack.scales || back.zeros != stack.zeros)
    return "rows out of tiles differ";
  for (std::uint64_t i = 0; i < count; ++i)
    if (!same_bits(all_values(matrix_of(tiles.view(), i)), share(values, count, i)))
      return "a matrix in tiles decodes to other values";
  return "";
}

TEST_CASE("a stack is its matrices in every format and granularity") {
  std::mt19937 random(49);
  for (const std::string& text : crumb::testing::all_specs()) {
    const QuantSpec spec = QuantSpec::parse(text);
    for (int i = 0; i < 3; ++i) {
      const DrawnStack drawn = drawn_stack(random);
      CAPTURE(text);
      CAPTURE(crumb::shape_text(drawn.shape));
      std::vector<float> x = crumb::testing::normal_values(elements(drawn.shape), random());
      for (std::uint64_t k = 0; k < x.size(); ++k)  // each matrix of another size
        x[k] *= static_cast<float>(1 + k * count_of(drawn) / x.size() * 9);
      CHECK(stack_difference(spec, drawn, x) == "");
    }
  }
}

TEST_CASE("matrices that lie [in, out] have the values of the others") {
  std::mt19937 random(50);
  for (const std::string& text : crumb::testing::all_specs()) {
    const QuantSpec spec = QuantSpec::parse(text);
    const Shape shape{1 + random() % 4, 1 + random() % 40, 1 + random() % 20};
    CAPTURE(text);
    CAPTURE(crumb::shape_text(shape));
    const std::vector<float> x = crumb::testing::normal_values(elements(shape), random());
    const auto turned = [&](const std::vector<float>& from, std::uint64_t rows, std::uint64_t cols) {
      std::vector<float> to(from.size());
      for (std::uint64_t i = 0; i < from.size(); ++i) {
        const std::uint64_t matrix = i / (rows * cols), own = i % (rows * cols);
        to[matrix * rows * cols + own % cols * rows + own / cols] = from[i];
      }
      return to;
    };
    const QuantizedTensor found =
        crumb::quantize(spec, x, shape, {.name = "w", .stack_axes = 1, .inputs_first = true});
    CHECK(found.encoding == spec.encoding(shape, 1, true));
    const Shape outputs_first{shape[0], shape[2], shape[1]};
    const QuantizedTensor meant =
        crumb::quantize(spec, turned(x, shape[1], shape[2]), outputs_first, {.name = "w", .stack_axes = 1});
    CHECK(same_bits(all_values(found.view()), turned(all_values(meant.view()), shape[2], shape[1])));
    CHECK(found.saturated_scales == meant.saturated_scales);
  }
}

TEST_CASE("stacks come matrix by matrix") {
  const Shape shape{3, 4, 8};
  const std::vector<float> x = crumb::testing::normal_values(elements(shape), 7);
  const QuantSpec spec = QuantSpec::parse("int4:tensor");
  CHECK(crumb::slice_size(spec, shape, 1, crumb::CodeLayout::kRows, 1).values == 32);
  crumb::SpanStream stream(x);
  std::uint64_t slices = 0;
  crumb::CodeBytes codes;
  quantize_slices(spec, shape, stream, 32,
                  [&](std::span<const float> values, const QuantizedView& slice) {
                    CHECK(same_bits(values, share(x, 3, slices)));
                    codes.insert(codes.end(), slice.codes.begin(), slice.codes.end());
                    ++slices;
                  },
                  {.stack_axes = 1});
  CHECK(slices == 3);
  CHECK(codes == crumb::quantize(spec, x, shape, {.stack_axes = 1}).codes);
}

TEST_CASE("a matrix of a stack that is not finite is named") {
  std::vector<float> x(2 * 3 * 4, 1.0F);
  x[17] = INFINITY;
  CHECK_THROWS_WITH_AS(
      crumb::quantize(QuantSpec::parse("int4"), x, Shape{2, 3, 4}, {.name = "experts.up", .stack_axes = 1}),
      doctest::Contains(
          "'experts.up[1]' holds 1 values that are inf or NaN, the first (inf) at index 5 of [3, 4]"),
      crumb::Error);
  CHECK_THROWS_WITH_AS(
      crumb::quantize(QuantSpec::parse("int4:group=3"), x, Shape{2, 3, 4}, {.stack_axes = 1}),
      doctest::Contains("group of 3 does not divide the 4 columns"), crumb::Error);
  CHECK(QuantSpec::parse("int4").misfit(Shape{2, 3}, 1).value_or("").find("is no stack") !=
        std::string::npos);
}

/// A file of stacks, as the writer makes it.
std::string written_stacks(const std::filesystem::path& path,
                           const std::vector<std::pair<DrawnStack, QuantizedTensor>>& all, int zstd) {
  crumb::CrumbHeader plan;
  for (std::size_t i = 0; i < all.size(); ++i) {
    crumb::Encoding encoding = all[i].second.encoding;
    plan.tensors.push_back(plan_encoded("w" + std::to_string(i), crumb::DType::kF32, all[i].first.shape,
                                        all[i].second.spec, encoding));
  }
  crumb::CrumbWriter writer(path, plan, zstd);
  for (const auto& [drawn, tensor] : all) write_encoded(writer, tensor, tensor.encoding.codes);
  writer.finish();
  return crumb::testing::read_all(path);
}

TEST_CASE("stacks in a packed file") {
  const crumb::testing::TempDir folder;
  std::mt19937 random(4);
  std::vector<std::pair<DrawnStack, QuantizedTensor>> all;
  for (const std::string& text : crumb::testing::all_specs()) {
    if (random() % 4 != 0) continue;
    const DrawnStack drawn = drawn_stack(random);
    QuantizedTensor made = crumb::quantize(QuantSpec::parse(text),
                                           crumb::testing::normal_values(elements(drawn.shape), random()),
                                           drawn.shape, {.stack_axes = drawn.stack_axes});
    const bool in_tiles = random() % 2 == 0;
    if (in_tiles) made = in_layout(made.view(), made.spec, crumb::CodeLayout::kTiles);
    all.emplace_back(drawn, std::move(made));
  }
  const auto path = folder.path() / "stacks.crumb";
  const std::string bytes = written_stacks(path, all, 0);
  CHECK(bytes.find(R"("features":["stacks"])") != std::string::npos);
  const auto file = std::make_shared<const crumb::CrumbFile>(crumb::CrumbFile::open(path).take());
  CHECK(check_packed_file(*file).ok());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].second.spec);
    const crumb::PackedTensor& packed = *file->find("w" + std::to_string(i));
    CHECK(*packed.encoding == all[i].second.encoding);
    const std::vector<float> wanted = all_values(all[i].second.view());
    CHECK(same_bits(all_values(crumb::LoadedTensor::load(*file, packed).take().view()), wanted));
    CHECK(same_bits(all_values(copy_encoded(*file, packed).take().view()), wanted));
    CHECK(same_bits(all_values(borrow_encoded(file, packed).take().view()), wanted));
  }
}

TEST_CASE("what is wrong with a stack in a packed file is said") {
  const crumb::testing::TempDir folder;
  const DrawnStack drawn{.shape = {2, 3, 7}, .stack_axes = 1};
  std::vector<std::pair<DrawnStack, QuantizedTensor>> one;
  one.emplace_back(drawn,
                   crumb::quantize(QuantSpec::parse("int4:channel"), crumb::testing::normal_values(42, 3),
                                   drawn.shape, {.stack_axes = 1}));
  const std::string good = written_stacks(folder.path() / "good.crumb", one, 0);
  const auto opened = [&](const auto& change) {
    crumb::testing::Taken taken(good);
    change(taken.header, taken.header["tensors"][0]["encoding"]);
    crumb::testing::write_all(folder.path() / "changed.crumb", taken.build());
    const auto file = crumb::CrumbFile::open(folder.path() / "changed.crumb");
    return file.ok() ? std::string() : file.failure().message;
  };
  using Json = crumb::testing::Json;
  CHECK(opened([](Json&, Json&) {}) == "");
  const auto says = [&](const auto& change, const char* what) {
    const std::string said = opened(change);
    CAPTURE(said);
    CHECK(said.find(what) != std::string::npos);
  };
  says([](Json& header, Json&) { header["features"] = Json::array(); }, "not the feature \"stacks\"");
  says([](Json& header, Json&) { header["features"] = {"stacks", "stacks"}; }, "twice");
  says([](Json&, Json& encoding) { encoding["stack"] = 0; }, "a stack of no axes");
  says([](Json&, Json& encoding) { encoding["stack"] = 99; }, "a stack of no axes");
  says([](Json&, Json& encoding) { encoding["stack"] = 2; }, "no stack of matrices over 2 axes");
  says([](Json&, Json& encoding) { encoding.erase("stack"); }, "raw bytes");
}

}  // namespace
