// The layout of an encoded tensor: matrices behind shapes, sizes, overflow.
#include "formats/number/encoding.h"

#include <doctest/doctest.h>

#include <vector>

using crumb::Encoding;
using crumb::matrix_shape;
using Shape = std::vector<uint64_t>;

TEST_CASE("encoding: the matrix behind a shape") {
  const struct {
    Shape shape;
    uint64_t rows, cols;
  } rows[] = {{{}, 1, 1},
              {{0}, 0, 0},
              {{1}, 1, 1},
              {{7}, 1, 7},
              {{3, 5}, 3, 5},
              {{0, 5}, 0, 0},
              {{5, 0}, 0, 0},
              {{2, 3, 4}, 2, 12},
              {{2, 0, 4}, 0, 0},
              {{6, 1, 1}, 6, 1},
              {{1, 9}, 1, 9},
              {{0, uint64_t{1} << 58}, 0, 0},
              {{uint64_t{1} << 29, 0, uint64_t{1} << 29}, 0, 0}};
  for (const auto& row : rows) {
    CAPTURE(row.shape.size());
    const auto matrix = matrix_shape(row.shape);
    REQUIRE(matrix.ok());
    CHECK(matrix.value().rows == row.rows);
    CHECK(matrix.value().cols == row.cols);
  }
}

TEST_CASE("encoding: shapes that overflow are refused with their numbers") {
  const uint64_t big = uint64_t{1} << 32;
  for (const Shape& shape :
       {Shape{big, big}, Shape{UINT64_MAX}, Shape{UINT64_MAX, UINT64_MAX, 3}, Shape{(uint64_t{1} << 58) + 1},
        Shape{UINT64_MAX, 0}, Shape{0, uint64_t{1} << 58, uint64_t{1} << 58}, Shape{big, 0, big}}) {
    const auto matrix = matrix_shape(shape);
    REQUIRE_FALSE(matrix.ok());
    CHECK(matrix.failure().message.find("2^58") != std::string::npos);
  }
  CHECK(matrix_shape(Shape{uint64_t{1} << 58}).ok());
  CHECK(matrix_shape(Shape{uint64_t{1} << 58, 0}).ok());
  // The limit, axis by axis.
  constexpr uint64_t kMost = uint64_t{1} << 58;
  CHECK(crumb::kMostElements == kMost);
  for (const uint64_t axis : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{1} << 29, kMost - 1, kMost}) {
    CAPTURE(axis);
    CHECK(matrix_shape(Shape{axis, kMost / axis}).ok());
    CHECK(matrix_shape(Shape{kMost / axis, 1, axis}).ok());
    CHECK_FALSE(matrix_shape(Shape{axis, kMost / axis + 1}).ok());
    CHECK_FALSE(matrix_shape(Shape{kMost / axis + 1, axis}).ok());
    CHECK(matrix_shape(Shape{axis, kMost / axis}).value().size() == axis * (kMost / axis));
  }
}

TEST_CASE("encoding: what is not said is one scale of 32 bits for each element, and every code") {
  const Encoding plain{.number = crumb::find_number_format("int4")};
  CHECK(plain.range == crumb::Range::kFull);
  CHECK(plain.scale == crumb::ScaleFormat::kF32);
  CHECK(plain.scale_exponent == 0);
  CHECK_FALSE(plain.tensor_scale);
  CHECK(plain.zero == crumb::ZeroPoint::kNone);
  const crumb::EncodedLayout layout = crumb::encoded_layout(plain, Shape{3, 5}).take();
  CHECK(layout.block_rows == 3);
  CHECK(layout.blocks_per_row == 5);
  CHECK(layout.total_bytes() == 3 * 3 + 15 * 4);
  const crumb::EncodedLayout empty;
  CHECK(empty.row_bytes == 0);
  CHECK(empty.block_rows == 0);
  CHECK(empty.blocks_per_row == 0);
  CHECK(empty.total_bytes() == 0);
  CHECK(crumb::MatrixShape{}.size() == 0);
}

TEST_CASE("encoding: sizes of the parts, recomputed") {
  const auto up = [](uint64_t a, uint64_t b) { return (a + b - 1) / b; };
  for (const crumb::NumberFormat& number : crumb::number_formats()) {
    for (const Shape& shape : {Shape{7, 33}, Shape{1}, Shape{}, Shape{0, 3}, Shape{5, 4, 9}, Shape{64, 1}}) {
      for (const auto& [block_rows, block_cols] :
           {std::pair<uint64_t, uint64_t>{1, 16}, {4, 8}, {1, 33}, {7, 33}}) {
        for (const crumb::ScaleFormatRow& scale : crumb::kScaleFormats) {
          for (const crumb::ZeroPoint zero :
               {crumb::ZeroPoint::kNone, crumb::ZeroPoint::kInteger, crumb::ZeroPoint::kFloat}) {
            const Encoding encoding{.number = &number,
                                    .scale = scale.format,
                                    .tensor_scale = block_cols == 16,
                                    .zero = zero,
                                    .block_rows = block_rows,
                                    .block_cols = block_cols};
            const crumb::MatrixShape matrix = matrix_shape(shape).take();
            const crumb::EncodedLayout layout = crumb::encoded_layout(encoding, shape).take();
            const uint64_t blocks = up(matrix.rows, block_rows) * up(matrix.cols, block_cols);
            const auto bits = static_cast<uint64_t>(number.bits);
            REQUIRE(layout.blocks() == blocks);
            REQUIRE(layout.row_bytes == up(matrix.cols * bits, 8));
            REQUIRE(layout.codes_bytes == matrix.rows * up(matrix.cols * bits, 8));
            REQUIRE(layout.scales_bytes == blocks * static_cast<uint64_t>(scale.bytes));
            const uint64_t zero_bytes = scale.name == "f16" || scale.name == "bf16" ? 2 : 4;
            REQUIRE(layout.zeros_bytes == (zero == crumb::ZeroPoint::kNone      ? 0
                                           : zero == crumb::ZeroPoint::kInteger ? up(blocks * bits, 8)
                                                                                : blocks * zero_bytes));
            REQUIRE(layout.codebook_bytes == (number.learned ? 4u << number.bits : 0u));
            REQUIRE(layout.tensor_scale_bytes == (encoding.tensor_scale ? 4u : 0u));
            REQUIRE(layout.total_bytes() == layout.codes_bytes + layout.scales_bytes + layout.zeros_bytes +
                                                layout.codebook_bytes + layout.tensor_scale_bytes);
          }
        }
      }
    }
  }
}
