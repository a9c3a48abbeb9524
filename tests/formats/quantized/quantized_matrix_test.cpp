// Rows of codes in every layout: published words, and any tile is a part of the whole.
#include "formats/checkpoint/quantized/quantized_matrix.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "tests/support/testing.h"

namespace crumb {
namespace {

/// A file that holds these bytes, and a place in it.
class Stored {
 public:
  explicit Stored(const std::vector<std::uint8_t>& bytes) {
    const auto path = dir_.path() / "bytes";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file_ = std::make_shared<const InputFile>(InputFile::open(path).take());
  }
  QuantizedPart at(std::uint64_t offset) const { return {file_, offset}; }

 private:
  testing::TempDir dir_;
  std::shared_ptr<const InputFile> file_;
};

std::vector<std::uint8_t> bytes_of_words(const std::vector<std::uint32_t>& words) {
  std::vector<std::uint8_t> bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

std::vector<float> read_all(const QuantizedLayout& layout, const QuantizedParts& parts) {
  std::vector<float> values(layout.rows * layout.cols);
  make_quantized_matrix(layout, parts)->read({0, layout.rows, 0, layout.cols}, values).take();
  return values;
}

/// The codes of words, with scales of one.
std::vector<float> codes_of(QuantizedLayout layout, const std::vector<std::uint32_t>& words) {
  std::vector<std::uint32_t> all = words;
  all.resize(words.size() + layout.rows, 0x3f800000);  // scales
  const Stored stored(bytes_of_words(all));
  layout.group = std::max<std::uint64_t>(layout.cols, 1);
  return read_all(layout, {.codes = stored.at(0), .scales = stored.at(words.size() * 4)});
}

TEST_CASE("published words") {
  QuantizedLayout row{.rows = 1, .cols = 8, .bits = 4, .row_bytes = 4};
  CHECK(codes_of(row, {0xfea98710}) == std::vector<float>{-8, -7, -1, 0, 1, 2, 6, 7});
  row.bits = 2;
  CHECK(codes_of(row, {0xe4e4e4e4}) == std::vector<float>{-2, -1, 0, 1, -2, -1, 0, 1});
  std::vector<float> threes;
  for (int i = 0; i < 32; ++i) threes.push_back(static_cast<float>(3 * i % 8 - 4));
  row = {.rows = 1, .cols = 32, .bits = 3, .row_bytes = 12};
  CHECK(codes_of(row, {0x98abc398, 0xc398abc3, 0xabc398ab}) == threes);
  row.codes = CodePlacement::kWords;
  row.row_bytes = 16;
  CHECK(codes_of(row, {0x18abc398, 0x0e62af0e, 0x3c398abc, 0x0000002a}) == threes);
  // AWQ's word for outputs of codes 0 1 7 8 9 10 14 15: its bits run 0 2 4 6 1 3 5 7.
  const QuantizedLayout awq{.rows = 8,
                            .cols = 1,
                            .bits = 4,
                            .codes = CodePlacement::kAwq,
                            .row_bytes = 4,
                            .meaning = CodeMeaning::kUnsigned};
  CHECK(codes_of(awq, {0xfa81e970}) == std::vector<float>{0, 1, 7, 8, 9, 10, 14, 15});
}

TEST_CASE("what a matrix is stored as") {
  QuantizedLayout layout{.rows = 64, .cols = 128, .bits = 4, .row_bytes = 64, .group = 32, .groups = 4};
  const auto text = [&] { return make_quantized_matrix(layout, {})->stored_as(); };
  CHECK(text() == "int4:group=32");
  layout.meaning = CodeMeaning::kUnsigned;
  layout.has_index = true;
  layout.group = 1;
  CHECK(text() == "uint4:group=32");
  layout = {.rows = 64, .cols = 128, .bits = 8, .meaning = CodeMeaning::kE4M3, .group = 128};
  CHECK(text() == "e4m3fn:channel");
  layout.scale_rows = 64;
  CHECK(text() == "e4m3fn:tensor");
  layout.scale_rows = 16;
  layout.group = 32;
  layout.groups = 4;
  CHECK(text() == "e4m3fn:block=16x32");
}

TEST_CASE("any tile is a part of the whole") {
  std::mt19937 random(3);
  const auto below = [&](std::uint64_t n) { return n == 0 ? 0 : random() % n; };
  std::size_t tiles = 0;
  for (int turn = 0; turn < 400; ++turn) {
    QuantizedLayout layout;
    const bool is_gptq = turn % 3 == 1, is_awq = turn % 3 == 2;
    const unsigned widths[] = {2, 3, 4, 8};
    layout.bits = is_awq ? 4 : is_gptq ? widths[below(4)] : 1 + static_cast<unsigned>(below(8));
    layout.rows = is_gptq || is_awq ? 32 * (1 + below(4)) : 1 + below(100);
    layout.cols = is_gptq ? 32 * (1 + below(5)) : 1 + below(150);
    layout.group = 1 + below(layout.cols);
    layout.groups = (layout.cols + layout.group - 1) / layout.group;
    layout.scale = layout.result = below(2) ? DType::kF16 : DType::kF32;
    layout.scale_columns = is_gptq || is_awq;
    layout.meaning = layout.scale_columns ? CodeMeaning::kUnsigned : CodeMeaning::kOffset;
    layout.has_index = below(2) != 0;
    const std::uint64_t words = (layout.cols * layout.bits + 31) / 32,
                        down = (layout.rows * layout.bits + 31) / 32;
    if (is_gptq) layout.codes = CodePlacement::kColumns;
    if (is_awq) layout.codes = CodePlacement::kAwq;
    layout.row_bytes = is_gptq ? layout.rows * 4 : is_awq ? layout.rows / 2 : words * 4;
    layout.zeros = is_gptq  ? (below(2) ? ZeroPlacement::kGptq1 : ZeroPlacement::kGptq2)
                   : is_awq ? ZeroPlacement::kAwq
                            : (below(2) ? ZeroPlacement::kDown : ZeroPlacement::kNone);
    const std::uint64_t codes = layout.row_bytes * (is_gptq ? words : is_awq ? layout.cols : layout.rows);
    const std::uint64_t scales = layout.rows * layout.groups * dtype_bits(layout.scale) / 8;
    const std::uint64_t zeros = layout.groups * 4 * (down + layout.rows);
    std::vector<std::uint8_t> bytes(codes + scales + zeros + layout.cols * 4);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    for (std::uint64_t at = codes; at < codes + scales; ++at) bytes[at] &= 0x3f;  // finite
    for (std::uint64_t j = 0; j < layout.cols; ++j) {
      const auto group = static_cast<std::uint32_t>(below(layout.groups));
      std::memcpy(bytes.data() + codes + scales + zeros + j * 4, &group, 4);
    }
    const Stored stored(bytes);
    const QuantizedParts parts{.codes = stored.at(0),
                               .scales = stored.at(codes),
                               .zeros = stored.at(codes + scales),
                               .index = stored.at(codes + scales + zeros),
                               .global = {}};
    const std::vector<float> whole = read_all(layout, parts);
    const auto matrix = make_quantized_matrix(layout, parts);
    for (int i = 0; i < 8; ++i) {
      MatrixTile tile;
      tile.row = below(layout.rows);  // readers begin at multiples of the step where a tile has several rows
      tile.rows = 1;
      if (i % 2 == 0) {
        tile.row -= tile.row % ComputedMatrix::kTileStep;
        tile.rows = 1 + below(layout.rows - tile.row);
      }
      tile.col = below(layout.cols) / ComputedMatrix::kTileStep * ComputedMatrix::kTileStep;
      tile.cols = 1 + below(layout.cols - tile.col);
      std::vector<float> values(tile.size());
      matrix->read(tile, values).take();
      for (std::uint64_t r = 0; r < tile.rows; ++r)
        REQUIRE(
            std::equal(values.begin() + static_cast<std::ptrdiff_t>(r * tile.cols),
                       values.begin() + static_cast<std::ptrdiff_t>((r + 1) * tile.cols),
                       whole.begin() + static_cast<std::ptrdiff_t>((tile.row + r) * layout.cols + tile.col)));
      ++tiles;
    }
  }
  CHECK(tiles == 3200);
}

}  // namespace
}  // namespace crumb
