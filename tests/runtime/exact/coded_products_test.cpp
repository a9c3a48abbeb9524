// Products with matrices in codes: every kernel has the bits of the definition, over widths of codes, kinds
// of scales, odd sizes and strides, and reads and writes nothing else.
#include "runtime/exact/coded_products.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/processor.h"
#include "quant/code_grid.h"
#include "quant/codes/code_layout.h"
#include "quant/quant_spec.h"
#include "quant/quantizer.h"
#include "runtime/exact/coded_matrix.h"
#include "runtime/exact/coded_tiles.h"
#include "runtime/exact/term_products.h"

using namespace crumb;
using namespace crumb::runtime::exact;

namespace {

/// Operands of a product with codes in memory of just their size, so that sanitizers see what is read beyond.
struct DrawnCodes {
  std::mt19937_64& engine;
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine() % n); }
  std::vector<float> some(std::size_t count, float most) {
    std::vector<float> made(count);
    for (float& value : made) value = most * static_cast<float>(engine() % 2001) / 1000 - most;
    return made;
  }

  int bits;
  std::size_t block, blocks;
  int zeros;  ///< 0: none, 1: subtracted, 2: added
  std::vector<float> x, y, values, scales, zero_points;
  std::unique_ptr<std::uint8_t[]> codes;
  Products products;

  DrawnCodes(std::mt19937_64& from, std::size_t step, std::size_t most_columns) : engine(from) {
    bits = static_cast<int>(1 + below(7));
    if (bits == 7) bits = 8;
    products.rows = 1 + below(kFewRows);
    products.columns = below(most_columns);
    products.terms = below(10) == 0 ? 300 + below(900) : below(150);
    products.x_stride = products.terms + below(5);
    block = below(3) == 0 ? products.terms + 1 + below(40) : step * (1 + below(4));
    zeros = static_cast<int>(below(3));
    if (bits == 4 && zeros == 0 && below(3) == 0) block = 16;  // half a tile
    blocks = (products.terms + block - 1) / block;
    const bool is_turned = below(2) == 1;
    products.y_row = is_turned ? 1 : products.columns + below(3);
    products.y_column = is_turned ? products.rows + below(3) : 1;
    x = some(products.rows * products.x_stride, 3);
    if (below(4) == 0 && !x.empty()) x[below(x.size())] = -0.0F;
    y.assign(products.rows * products.columns * 3 + 64, 7);
    values = some(std::size_t{1} << bits, 5);
    if (bits == 8 && below(2) == 0) {
      static constexpr const char* kFloats[] = {"e4m3", "e4m3fn", "e5m2", "e3m4", "e2m5"};
      const NumberFormat* const number = find_number_format(kFloats[below(std::size(kFloats))]);
      REQUIRE(number != nullptr);
      std::ranges::copy(make_code_grid(*number, number->default_range()).values, values.begin());
      for (float& value : values) {  // any order of NaN's bits is theirs
        if (std::isnan(value)) value = std::numeric_limits<float>::infinity();
      }
    } else if (bits == 8) {
      const bool is_signed = below(2) == 1;
      const float offset = below(2) == 1 ? 0.5F : 0.0F;
      for (int i = 0; i < 256; ++i)
        values[static_cast<std::size_t>(i)] = static_cast<float>(is_signed && i > 127 ? i - 256 : i) + offset;
    }
    products.x = x.data();
    products.y = y.data();
  }

  void draw_codes(std::size_t bytes) {
    codes = std::make_unique<std::uint8_t[]>(bytes);
    for (std::size_t i = 0; i < bytes; ++i) codes[i] = static_cast<std::uint8_t>(engine());
  }

  template <class W>
  void fill(W& w, std::size_t scale_count) {
    scales = some(scale_count, 1);
    zero_points = some(scale_count, 8);
    w.codes = codes.get();
    w.bits = bits;
    w.values = values.data();
    if (bits == 8) w.bytes = byte_values(values.data());
    w.block = block;
    w.scales = scales.data();
    w.zeros = zeros > 0 ? zero_points.data() : nullptr;
    w.adds_zeros = zeros == 2;
  }

  /// What a way makes, its bits, the memory between and behind results among them.
  template <class W, class Way>
  std::vector<std::uint32_t> made_by(const W& w, const Way& way) {
    y.assign(y.size(), 7);
    products.y = y.data();
    way(products, w);
    std::vector<std::uint32_t> bits_of;
    for (const float value : y) bits_of.push_back(std::bit_cast<std::uint32_t>(value));
    return bits_of;
  }
};

}  // namespace

TEST_CASE("coded products: rows of codes, every way") {
  std::mt19937_64 engine(11);
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    DrawnCodes drawn(engine, kPartialSums, 11);
    const std::size_t row_bytes = (drawn.products.terms * static_cast<std::size_t>(drawn.bits) + 7) / 8;
    drawn.draw_codes(row_bytes * drawn.products.columns);
    CodedRows w{.row_bytes = row_bytes};
    drawn.fill(w, drawn.products.columns * drawn.blocks);
    w.end = w.codes + row_bytes * drawn.products.columns;
    const auto expected = drawn.made_by(w, multiply_codes_ref);
    if (may_use(Isa::kAvx2) && (drawn.bits <= 4 || drawn.bits == 8))
      CHECK(drawn.made_by(w, multiply_codes_avx2) == expected);
    if (may_use(Isa::kAvx512)) CHECK(drawn.made_by(w, multiply_codes_avx512) == expected);
    if (takes_codes(drawn.bits, drawn.values.data())) CHECK(drawn.made_by(w, multiply_codes) == expected);
  }
}

TEST_CASE("coded products: codes in tiles, every way") {
  std::mt19937_64 engine(12);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    DrawnCodes drawn(engine, 32, 40);
    const std::size_t rows_of_tiles = (drawn.products.columns + 15) / 16;
    const std::size_t row_bytes =
        (drawn.products.terms + 31) / 32 * 64 * static_cast<std::size_t>(drawn.bits);
    drawn.draw_codes(row_bytes * rows_of_tiles);
    CodedTiles w{.row_bytes = row_bytes};
    drawn.fill(w, rows_of_tiles * drawn.blocks * 16);
    const auto expected = drawn.made_by(w, multiply_tiles_ref);
    if (may_use(Isa::kAvx2) && (drawn.bits <= 4 || drawn.bits == 8))
      CHECK(drawn.made_by(w, multiply_tiles_avx2) == expected);
    if (may_use(Isa::kAvx512)) CHECK(drawn.made_by(w, multiply_tiles_avx512) == expected);
    if (rows_of_tiles == 0 || drawn.products.terms == 0) continue;
    const std::size_t terms = drawn.products.terms, stride = 16 + drawn.below(20);
    const auto decoded_by = [&](const auto& way) {
      std::vector<float> made(panel_rows(terms) * stride, 7.0F);
      way(w, terms, made.data(), stride);
      std::vector<std::uint32_t> bits;
      for (const float value : made) bits.push_back(std::bit_cast<std::uint32_t>(value));
      return bits;
    };
    const auto values = decoded_by(decode_terms_ref);
    if (may_use(Isa::kAvx2) && (drawn.bits <= 4 || drawn.bits == 8))
      CHECK(decoded_by(decode_terms_avx2) == values);
    if (may_use(Isa::kAvx512)) CHECK(decoded_by(decode_terms_avx512) == values);
  }
}

TEST_CASE("coded products: bytes that are integers or floats are known") {
  using Kind = ByteValues::Kind;
  std::vector<float> values(256);
  for (int i = 0; i < 256; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
  CHECK(byte_values(values.data()).kind == Kind::kUnsigned);
  for (std::size_t i = 128; i < 256; ++i) values[i] -= 256;
  CHECK(byte_values(values.data()).kind == Kind::kSigned);
  values[200] += 0.25F;
  CHECK(byte_values(values.data()).kind == Kind::kTable);
  const struct {
    const char* name;
    int mantissa, tabled;
  } floats[] = {{"e4m3fn", 3, 127}, {"e5m2", 2, 124}, {"e4m3", 3, 128}, {"e3m4", 4, 128}};
  for (const auto& row : floats) {
    CAPTURE(row.name);
    const NumberFormat& number = *find_number_format(row.name);
    const ByteValues found = byte_values(make_code_grid(number, number.default_range()).values.data());
    CHECK(found.kind == Kind::kFloat);
    CHECK(found.mantissa == row.mantissa);
    CHECK(found.tabled == row.tabled);
  }
}

TEST_CASE("coded matrices: every format, granularity and layout has the bits of its values") {
  std::mt19937_64 engine(13);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
  int taken = 0;
  for (const char* spec : {"binary:channel",
                           "ternary:group=32",
                           "int2h:group=16",
                           "int2:tensor",
                           "int3:group=64",
                           "int4:group=32",
                           "int4:channel:zero=int",
                           "uint4:group=128:zero=float",
                           "int4:group=32:zero=min",
                           "palette4:channel",
                           "e2m1:group=32",
                           "mxfp4",
                           "nvfp4",
                           "int5:group=32",
                           "e3m2:channel",
                           "e2m3:group=64",
                           "int6:channel",
                           "mxfp6_e3m2",
                           "int8:channel",
                           "uint8:group=32:zero=int",
                           "int8:tensor",
                           "int8:group=48",
                           "e4m3:channel",
                           "e4m3fn:channel",
                           "e5m2:group=32",
                           "int7:channel",
                           "int4:group=24",
                           "int4:block=8x32",
                           "int8:block=3x16"}) {
    for (int round = 0; round < 12; ++round) {
      CAPTURE(spec);
      CAPTURE(round);
      // Every other shape is one that all groups divide.
      const std::uint64_t rows = 1 + below(50),
                          columns = round % 2 == 0 ? 384 * (1 + below(2)) : 1 + below(6) * 48 + below(40);
      std::vector<float> weights(rows * columns);
      for (float& w : weights) w = static_cast<float>(engine() % 2001) / 1000 - 1;
      const std::vector<std::uint64_t> shape{rows, columns};
      std::shared_ptr<const QuantizedTensor> tensor;
      try {
        QuantizedTensor made = quantize(QuantSpec::parse(spec), weights, shape);
        if (round % 3 == 0) made = in_layout(made.view(), made.spec, CodeLayout::kTiles);
        tensor = std::make_shared<const QuantizedTensor>(std::move(made));
      } catch (const Error&) {
        continue;  // a group that does not divide, for one
      }
      const std::shared_ptr<const CodedMatrix> matrix = CodedMatrix::of(tensor);
      if (!matrix) continue;
      ++taken;
      std::vector<float> decoded(rows * columns);
      dequantize(tensor->view(), decoded);
      const std::size_t n = 1 + below(tensor->encoding.codes == CodeLayout::kTiles ? 70 : 8);
      std::vector<float> x(n * columns), expected(n * rows), found(n * rows);
      for (float& v : x) v = static_cast<float>(engine() % 2001) / 1000 - 1;
      Products products{.rows = n,
                        .columns = rows,
                        .terms = columns,
                        .x = x.data(),
                        .x_stride = columns,
                        .w = decoded.data(),
                        .w_stride = columns,
                        .y = expected.data(),
                        .y_row = rows};
      multiply_ref(products);
      products.y = found.data();
      products.w = nullptr;
      REQUIRE(matrix->is_for(n));
      matrix->multiply(products, 0, static_cast<int>(1 + below(3)));
      bool same = true;
      for (std::size_t i = 0; i < found.size(); ++i)
        same = same && std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(expected[i]);
      CHECK(same);
    }
  }
  if (may_use(Isa::kAvx2)) CHECK(taken > 100);
}
