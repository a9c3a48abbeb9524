#include "quant/codes/code_layout.h"

#include <cmath>
#include <cstring>
#include <random>

#include "formats/half.h"
#include "quant/packed/packed_check.h"
#include "quant/packed/packed_tensor.h"
#include "quant/quantizer.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

std::vector<float> values_of(const QuantizedView& view) {
  std::vector<float> values(view.layout.matrix.size());
  dequantize(view, values, 2);
  const RowDecoder decoder(view);
  for (uint64_t i = 0; i < values.size(); ++i)
    REQUIRE(std::bit_cast<uint32_t>(values[i]) ==
            std::bit_cast<uint32_t>(decoder.value_ref(i / decoder.cols(), i % decoder.cols())));
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const char* const kEndings[] = {":tensor", ":channel", ":group=7:pad", ":group=32:pad:scale=bf16",
                                ":block=3x8:pad"};

TEST_CASE("layouts: every format and granularity has the same values in rows and in tiles, and goes back") {
  std::mt19937 engine(2);
  for (const NumberFormat& number : number_formats()) {
    if (number.scale_only) continue;
    for (const char* ending : kEndings) {
      for (const char* zero : {"", ":zero=int", ":zero=float"}) {
        if (*zero && !number.has_zero_point()) continue;
        const std::string spec = std::string(number.name) + ending + zero;
        CAPTURE(spec);
        const std::vector<uint64_t> shape{1 + engine() % 40, 1 + engine() % 70};
        const std::vector<float> x = testing::normal_values(shape[0] * shape[1], engine());
        const QuantizedTensor rows = quantize(QuantSpec::parse(spec), x, shape, {.threads = 1});
        const QuantizedTensor tiles = in_layout(rows.view(), rows.spec, CodeLayout::kTiles, 2);
        CHECK(same_bits(values_of(rows.view()), values_of(tiles.view())));
        const QuantizedTensor back = in_layout(tiles.view(), rows.spec, CodeLayout::kRows, 2);
        CHECK(back.codes == rows.codes);
        CHECK(back.scales == rows.scales);
        CHECK(back.zeros == rows.zeros);
        // Any part of a row.
        const RowDecoder decoder(tiles.view());
        std::vector<float> all = values_of(rows.view());
        for (int i = 0; i < 10; ++i) {
          const uint64_t row = engine() % shape[0], first = engine() % shape[1];
          std::vector<float> some(1 + engine() % (shape[1] - first));
          decoder.values(row, first, some);
          CHECK(std::equal(some.begin(), some.end(),
                           all.begin() + static_cast<std::ptrdiff_t>(row * shape[1] + first)));
        }
      }
    }
  }
}

/// A tensor whose zero points are minima and whose scales may be negative: no quantizer makes one.
QuantizedTensor with_minima(const std::vector<uint64_t>& shape, ScaleFormat scale, uint64_t seed) {
  std::mt19937 engine(static_cast<unsigned>(seed));
  const bool small = scale == ScaleFormat::kF16;
  QuantizedTensor made;
  made.spec = "by hand";
  made.shape = shape;
  made.encoding = {.number = find_number_format("uint4"),
                   .scale = scale,
                   .zero = ZeroPoint::kMinimum,
                   .block_rows = 1,
                   .block_cols = 32,
                   .signed_scales = true};
  made.layout = encoded_layout(made.encoding, shape).take();
  made.codes.resize(made.layout.codes_bytes);
  for (std::byte& byte : made.codes) byte = static_cast<std::byte>(engine());
  const uint64_t odd = shape[1] % 2;  // a code's place that is none
  for (uint64_t row = 0; odd && row < shape[0]; ++row)
    made.codes[(row + 1) * made.layout.row_bytes - 1] &= std::byte{0x0F};
  const auto fill = [&](std::vector<std::byte>& part, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const float value = std::ldexp(static_cast<float>(engine() % 4096) - 2048, -10);
      const uint32_t pattern = small ? float_to_f16(value) : std::bit_cast<uint32_t>(value);
      for (int b = 0; b < (small ? 2 : 4); ++b) part.push_back(static_cast<std::byte>(pattern >> (8 * b)));
    }
  };
  fill(made.scales, made.layout.slots);
  fill(made.zeros, made.layout.slots);
  return made;
}

TEST_CASE("layouts: minima are added to the rounded product, under scales of any sign") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ScaleFormat scale = seed % 2 ? ScaleFormat::kF16 : ScaleFormat::kF32;
    const std::vector<uint64_t> shape{1 + seed % 20, 1 + seed * 7 % 90};
    const QuantizedTensor rows = with_minima(shape, scale, seed);
    const RowDecoder decoder(rows.view());
    const std::vector<float> values = values_of(rows.view());
    for (uint64_t i = 0; i < values.size(); ++i) {
      const uint64_t row = i / shape[1], col = i % shape[1],
                     block = row * rows.layout.blocks_per_row + col / 32;
      const auto byte = std::to_integer<unsigned>(rows.codes[row * rows.layout.row_bytes + col / 2]);
      const auto q = static_cast<float>(col % 2 ? byte >> 4 : byte & 15);
      const float product = q * decoder.scale(block);
      CHECK(std::bit_cast<uint32_t>(values[i]) ==
            std::bit_cast<uint32_t>(product + decoder.zero_point(block)));
    }
    const QuantizedTensor tiles = in_layout(rows.view(), "", CodeLayout::kTiles, 1);
    CHECK(same_bits(values, values_of(tiles.view())));
  }
}

TEST_CASE("layouts: what is written in tiles is read in rows, through a file") {
  const testing::TempDir folder;
  const auto path = folder.path() / "m.crumb";
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<uint64_t> shape{1 + seed * 5 % 50, 1 + seed * 11 % 90};
    const QuantizedTensor rows = with_minima(shape, seed % 2 ? ScaleFormat::kF16 : ScaleFormat::kF32, seed);
    for (const CodeLayout codes : {CodeLayout::kRows, CodeLayout::kTiles}) {
      Encoding encoding = rows.encoding;
      encoding.codes = codes;
      CrumbHeader plan;
      plan.tensors.push_back(plan_encoded("w", DType::kF32, shape, "by hand", encoding));
      CrumbWriter writer(path, plan, 3);
      write_encoded(writer, rows, codes);
      writer.finish();
      const CrumbFile file = CrumbFile::open(path).take();
      check_packed_file(file).take();
      CHECK(file.header().tensors[0].encoding == encoding);
      CHECK(
          (codes == CodeLayout::kRows || file.header().tensors[0].part(Part::kCodes)->codec == Codec::kNone));
      const QuantizedTensor read = copy_encoded(file, file.header().tensors[0]).take();
      CHECK(read.codes == rows.codes);
      CHECK(read.scales == rows.scales);
      CHECK(read.zeros == rows.zeros);
    }
  }
}

}  // namespace
}  // namespace crumb
