// Rows that a quantizer made come out of their codes as they were; all others are refused.
#include "runtime/attention/coded_rows.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "formats/number/token_scale.h"
#include "runtime/attention/cache.h"

namespace {

using crumb::NumberFormat;
using crumb::Range;
using crumb::runtime::CacheCodes;
using crumb::runtime::HeadRows;
using crumb::runtime::KeyCache;
using crumb::runtime::RowCoder;
using crumb::runtime::RowCodes;

/// Formats whose scales are found as values come, by the numeric contract.
std::vector<RowCodes> row_codes() {
  std::vector<RowCodes> all;
  for (const NumberFormat& format : crumb::number_formats()) {
    const bool is_integer = format.grid == crumb::Grid::kInteger && format.has_range() && format.is_signed;
    const bool is_float = format.grid == crumb::Grid::kMinifloat && !format.scale_only;
    if (is_integer) all.push_back({&format, Range::kFull, 0});
    if (is_integer || is_float) all.push_back({&format, format.default_range(), 0});
  }
  return all;
}

/// What a quantizer with the scale of the largest magnitude gives.
std::vector<float> quantized(const RowCodes& codes, std::size_t group, std::vector<float> row) {
  const std::array<float, 256> table = crumb::value_table(*codes.number);
  const float greatest = crumb::token_greatest(*codes.number, codes.range);
  for (std::size_t first = 0; first < row.size(); first += group) {
    float most = 0;
    for (std::size_t c = first; c < first + group; ++c) most = std::max(most, std::fabs(row[c]));
    const float scale = std::max(most, 0x1p-100F) / greatest;
    for (std::size_t c = first; c < first + group; ++c) {
      float best = 0;
      for (int bits = 0; bits < 1 << codes.number->bits; ++bits) {
        const float value = table[static_cast<std::size_t>(bits)];
        if (std::isfinite(value) && std::fabs(value) <= greatest &&
            std::fabs(value - row[c] / scale) < std::fabs(best - row[c] / scale))
          best = value;
      }
      row[c] = best * scale;
    }
  }
  return row;
}

std::vector<float> drawn(std::mt19937& random, std::size_t size) {
  std::normal_distribution<float> normal;
  const float scale = std::exp(4 * normal(random));
  const bool zeros = random() % 16 == 0;
  std::vector<float> row(size);
  for (float& x : row) x = zeros ? 0 : scale * normal(random);
  return row;
}

}  // namespace

TEST_CASE("coded rows: what a quantizer made comes out as it was") {
  std::mt19937 random(7);
  std::size_t rows = 0;
  for (RowCodes codes : row_codes()) {
    CAPTURE(codes.number->name);
    for (int round = 0; round < 200; ++round) {
      const std::size_t group = 1 + random() % 33, depth = group * (1 + random() % 3);
      codes.group = group == depth && random() % 2 == 0 ? 0 : group;
      const std::vector<float> row = quantized(codes, group, drawn(random, depth));
      const RowCoder coder(codes, depth);
      std::vector<std::uint8_t> bits(coder.code_bytes(), 0xA5);
      std::vector<float> scales(coder.scales()), back(depth);
      REQUIRE(coder.encode(row.data(), bits.data(), scales.data()));
      coder.decode(bits.data(), scales.data(), back.data(), 1);
      CHECK(back == row);
      ++rows;
    }
  }
  CHECK(rows >= 200 * 10);
}

TEST_CASE("coded rows: a row that is off its grid is refused, or comes out as it was") {
  std::mt19937 random(8);
  std::size_t refused = 0, rows = 0;
  for (const RowCodes& codes : row_codes()) {
    const std::size_t depth = 24;
    const RowCoder coder(codes, depth);
    for (int round = 0; round < 100; ++round) {
      std::vector<float> row = quantized(codes, depth, drawn(random, depth));
      float& x = row[random() % depth];
      const float odd[] = {std::nextafter(x, INFINITY), std::nextafter(x, -INFINITY), x * 1.01F, NAN,
                           INFINITY};
      x = odd[random() % 5];
      std::vector<std::uint8_t> bits(coder.code_bytes());
      std::vector<float> scales(coder.scales()), back(depth);
      ++rows;
      if (!coder.encode(row.data(), bits.data(), scales.data())) {
        ++refused;
        continue;
      }
      coder.decode(bits.data(), scales.data(), back.data(), 1);
      CHECK(back == row);
    }
  }
  CHECK(refused > rows / 2);
}

TEST_CASE("a cache of codes holds what one of floats holds, in less memory, and takes what is no codes") {
  std::mt19937 random(9);
  const KeyCache::Sizes sizes{.batch = 2, .heads = 3, .depth = 16, .value_depth = 8};
  const std::size_t heads = sizes.batch * sizes.heads;
  const auto laid = [](const std::vector<float>& rows, std::size_t count, std::size_t head_count,
                       std::size_t depth) {
    return HeadRows{rows.data(), head_count * count * depth, count * depth, depth};
  };
  for (const RowCodes& codes : row_codes()) {
    CAPTURE(codes.number->name);
    KeyCache coded(0, CacheCodes{codes, codes}), plain;
    const bool breaks = random() % 3 == 0;
    for (int step = 0; step < 6; ++step) {
      const std::size_t rows = 1 + random() % 40;
      std::vector<float> keys, values;
      for (std::size_t r = 0; r < heads * rows; ++r) {
        const std::vector<float> k = quantized(codes, sizes.depth, drawn(random, sizes.depth));
        const std::vector<float> v = quantized(codes, sizes.value_depth, drawn(random, sizes.value_depth));
        keys.insert(keys.end(), k.begin(), k.end());
        values.insert(values.end(), v.begin(), v.end());
      }
      if (breaks && step == 4) values[random() % values.size()] = 0.1234567F;
      for (KeyCache* cache : {&coded, &plain}) {
        cache->append(sizes, rows, laid(keys, rows, sizes.heads, sizes.depth),
                      laid(values, rows, sizes.heads, sizes.value_depth));
        if (step == 3) {
          cache->forget();
        } else {
          cache->commit();
        }
      }
      const auto same = [](const crumb::runtime::Array& a, const crumb::runtime::Array& b) {
        return a.shape() == b.shape() && std::ranges::equal(a.values<float>(), b.values<float>());
      };
      constexpr auto kFloat = crumb::runtime::ElementType::kFloat;
      CHECK(same(coded.keys_array(kFloat), plain.keys_array(kFloat)));
      CHECK(same(coded.values_array(kFloat), plain.values_array(kFloat)));
      const auto a = coded.values(2), b = plain.values(1);
      for (std::size_t i = 0; i < coded.length(); ++i) {
        for (std::size_t c = 0; c < sizes.value_depth; ++c)
          REQUIRE(a.rows.element(1, 2, i, c) == b.rows.element(1, 2, i, c));
      }
    }
    const std::uint64_t expected = breaks ? plain.bytes() : plain.bytes() / 2;
    CHECK(coded.bytes() <= expected);
    coded.truncate(coded.length() / 2);
    plain.truncate(plain.length() / 2);
    CHECK(coded.keys_array(crumb::runtime::ElementType::kFloat).size() ==
          plain.keys_array(crumb::runtime::ElementType::kFloat).size());
  }
}
