// What makes a packed file unsound though its checksums hold: one code, one padding bit, wherever it lies and
// however the bytes come.
#include "quant/packed/packed_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "formats/number/packing.h"
#include "formats/number/tiles.h"
#include "quant/codes/code_layout.h"
#include "quant/quantizer.h"
#include "tests/support/samples.h"

using crumb::NumberFormat;
using crumb::Part;
using crumb::QuantizedTensor;
using crumb::QuantSpec;
using crumb::Range;
using crumb::Status;

namespace {

/// The patterns that the format's range does not have, and those without a finite value.
std::vector<uint8_t> forbidden(const NumberFormat& number, Range range) {
  std::vector<uint8_t> patterns;
  const auto values = crumb::value_table(number, std::vector<float>(size_t{1} << number.bits));
  for (int pattern = 0; pattern < 1 << number.bits; ++pattern) {
    const int code = number.code_of(static_cast<uint8_t>(pattern));
    const bool outside = code < number.least_code(range) || code > number.greatest_code(range);
    if (outside || !std::isfinite(values[static_cast<size_t>(pattern)]))
      patterns.push_back(static_cast<uint8_t>(pattern));
  }
  return patterns;
}

/// What check_encoded says of a tensor whose parts come in slices of random sizes; empty where it is sound.
std::string fault(const QuantizedTensor& tensor, const std::vector<uint64_t>& shape, std::mt19937& engine) {
  crumb::PackedTensor packed;
  packed.name = "t";
  packed.shape = shape;
  packed.encoding = tensor.encoding;
  const auto read = [&](Part part, const crumb::CrumbFile::Sink& sink) -> Status {
    std::span<const std::byte> bytes = tensor.codes;
    if (part != Part::kCodes) bytes = part == Part::kScales ? tensor.scales : tensor.zeros;
    const size_t most = 1 + engine() % 3000;
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = std::min(1 + engine() % most, bytes.size() - at);
      if (Status status = sink(bytes.subspan(at, count)); !status.ok()) return status;
      at += count;
    }
    return {};
  };
  const Status status = crumb::check_encoded(packed, read);
  return status.ok() ? "" : status.failure().message;
}

/// Calls visit(format, spec, the spec parsed, the patterns that may not occur) for formats in all ranges.
template <class Visit>
void for_formats(const Visit& visit) {
  for (const NumberFormat& number : crumb::number_formats()) {
    if (number.scale_only || number.learned) continue;
    for (const char* range : {"", ":range=full", ":range=narrow"}) {
      if (*range && !number.has_range()) continue;
      const std::string text = std::string(number.name) + ":tensor" + range;
      const QuantSpec spec = QuantSpec::parse(text);
      visit(number, text, spec, forbidden(number, spec.encoding(std::vector<uint64_t>{1}).range));
    }
  }
}

}  // namespace

TEST_CASE("packed check: any one code that the format does not have is found, and so is any bit of padding") {
  std::mt19937 engine(5);
  size_t strayed = 0, padded = 0;
  for_formats([&](const NumberFormat& number, const std::string& text, const QuantSpec& spec,
                  const std::vector<uint8_t>& patterns) {
    CAPTURE(text);
    for (int round = 0; round < 12; ++round) {
      const uint64_t rows = 1 + engine() % 4, cols = 1 + engine() % (round < 6 ? 40 : 9000);
      const std::vector<uint64_t> shape{rows, cols};
      CAPTURE(cols);
      QuantizedTensor tensor =
          crumb::quantize(spec, crumb::testing::normal_values(rows * cols, engine()), shape, {.threads = 1});
      REQUIRE(fault(tensor, shape, engine) == "");

      const size_t row_bytes = crumb::packed_bytes(cols, number.bits);
      auto* bytes = reinterpret_cast<uint8_t*>(tensor.codes.data());
      const uint64_t row = engine() % rows, col = round % 3 == 0 ? cols - 1 : engine() % cols;
      const auto sound = tensor.codes;
      if (!patterns.empty()) {
        std::vector<uint8_t> codes(cols);
        crumb::unpack_codes_ref(bytes + row * row_bytes, number.bits, 0, codes);
        codes[col] = patterns[engine() % patterns.size()];
        crumb::pack_codes_ref(codes, number.bits, bytes + row * row_bytes);
        const std::string place = "at row " + std::to_string(row) + ", column " + std::to_string(col) + ";";
        CHECK(fault(tensor, shape, engine).find(place) != std::string::npos);
        tensor.codes = sound;
        ++strayed;
      }
      if (const uint64_t used = cols * static_cast<uint64_t>(number.bits) % 8; used != 0) {
        tensor.codes[(row + 1) * row_bytes - 1] |= std::byte(1 << (used + engine() % (8 - used)));
        CHECK(fault(tensor, shape, engine).find("padding bits") != std::string::npos);
        ++padded;
      }
    }
  });
  CHECK(strayed > 150);
  CHECK(padded > 150);
}

TEST_CASE(
    "packed check: in tiles, too, any one code that the format does not have is found, and any padding") {
  std::mt19937 engine(6);
  size_t strayed = 0, padded = 0;
  for_formats([&](const NumberFormat& number, const std::string& text, const QuantSpec& spec,
                  const std::vector<uint8_t>& patterns) {
    CAPTURE(text);
    for (int round = 0; round < 12; ++round) {
      const uint64_t rows = 1 + engine() % 40, cols = 1 + engine() % 100;
      const std::vector<uint64_t> shape{rows, cols};
      QuantizedTensor tensor = crumb::in_layout(
          crumb::quantize(spec, crumb::testing::normal_values(rows * cols, engine()), shape, {.threads = 1})
              .view(),
          text, crumb::CodeLayout::kTiles);
      REQUIRE(fault(tensor, shape, engine) == "");
      const bool is_padding = patterns.empty() || round % 3 == 0;
      const uint64_t row = is_padding ? engine() % ((rows + 15) / 16 * 16) : engine() % rows;
      const uint64_t col = is_padding ? engine() % ((cols + 31) / 32 * 32) : engine() % cols;
      if (is_padding && row < rows && col < cols) continue;
      uint8_t* const tile = reinterpret_cast<uint8_t*>(tensor.codes.data()) +
                            (row / 16 * ((cols + 31) / 32) + col / 32) * crumb::tile_bytes(number.bits);
      std::array<uint8_t, crumb::kTileRows * crumb::kTileCols> codes;
      for (uint64_t i = 0; i < codes.size(); ++i)
        codes[i] = crumb::tile_code_ref(tile, number.bits, i / crumb::kTileCols, i % crumb::kTileCols);
      codes[row % 16 * crumb::kTileCols + col % 32] = is_padding ? 1 : patterns[engine() % patterns.size()];
      crumb::pack_tile(codes, number.bits, tile);
      const std::string place = "at row " + std::to_string(row) + ", column " + std::to_string(col);
      const std::string message = fault(tensor, shape, engine);
      CHECK(message.find(place) != std::string::npos);
      CHECK((message.find("padding bits") != std::string::npos) == is_padding);
      ++(is_padding ? padded : strayed);
    }
  });
  CHECK(strayed > 150);
  CHECK(padded > 100);
}
