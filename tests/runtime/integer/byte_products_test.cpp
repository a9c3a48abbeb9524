// Byte products: every way gives the sums of the definition, and those are the exact ones modulo 2^32.
#include "runtime/integer/byte_products.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <vector>

#include "base/processor.h"
#include "runtime/integer/byte_products_tiles.inc"
#include "runtime/integer/byte_weights.h"
#include "tests/support/testing.h"

namespace crumb::runtime::integer {
namespace {

struct Drawn {
  std::size_t rows, columns, terms, groups;
  InVectors which;
  std::vector<std::int8_t> weights;  ///< of rows, or of columns in rows
  std::vector<std::uint8_t> codes;   ///< the same
  std::vector<std::int8_t> vectors_of_weights;
  std::vector<std::uint8_t> vectors_of_codes;
  std::vector<std::int32_t> starts;
  int most_code = 255;

  explicit Drawn(std::mt19937_64& engine, int most_weight, int most) : most_code(most) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    which = below(2) == 0 ? InVectors::kWeights : InVectors::kCodes;
    rows = below(below(4) == 0 ? 80 : 15), columns = below(150), terms = below(below(2) == 0 ? 12 : 130);
    groups = groups_of(terms);
    const bool weights_in_vectors = which == InVectors::kWeights;
    weights.assign((weights_in_vectors ? columns : rows) * groups * kGroup, 0);
    codes.assign((weights_in_vectors ? rows : columns) * groups * kGroup, 0);
    // What is filled up is zero among the weights, anything among the codes.
    const auto extreme = [&] { return below(6) == 0; };
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (i % (groups * kGroup) >= terms) continue;
      const int w = static_cast<int>(below(static_cast<std::size_t>(2 * most_weight + 1))) - most_weight;
      weights[i] = static_cast<std::int8_t>(extreme() ? (below(2) == 0 ? most_weight : -most_weight) : w);
    }
    for (std::uint8_t& code : codes)
      code = static_cast<std::uint8_t>(extreme() ? static_cast<std::size_t>(most)
                                                 : below(static_cast<std::size_t>(most) + 1));
    if (weights_in_vectors) {
      vectors_of_weights = vectors_of_rows(weights, groups);
    } else {
      const std::vector<std::int8_t> as_signed(codes.begin(), codes.end());
      const auto vectors = vectors_of_rows(as_signed, groups);
      vectors_of_codes.assign(vectors.begin(), vectors.end());
    }
    starts.resize(weights_in_vectors ? vectors_of(columns) * kLanes : rows);
    for (std::int32_t& start : starts) start = static_cast<std::int32_t>(engine());
  }

  std::size_t stride() const { return vectors_of(columns) * kLanes + 3; }

  std::vector<std::int32_t> by(const std::function<void(const ByteProducts&)>& way) const {
    std::vector<std::int32_t> y(rows * stride() + 8, 77);
    const bool weights_in_vectors = which == InVectors::kWeights;
    const auto bytes = [](const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); };
    way({.rows = rows,
         .vectors = vectors_of(columns),
         .groups = groups,
         .row = weights_in_vectors ? bytes(codes) : bytes(weights),
         .row_stride = groups * kGroup,
         .vector = weights_in_vectors ? bytes(vectors_of_weights) : bytes(vectors_of_codes),
         .start = starts.data(),
         .y = y.data(),
         .y_stride = stride()});
    return y;
  }

  std::vector<std::int32_t> exact() const {
    std::vector<std::int32_t> y(rows * stride() + 8, 77);
    const bool by_column = which == InVectors::kWeights;
    const std::size_t width = groups * kGroup;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < vectors_of(columns) * kLanes; ++c) {
        std::int64_t sum = starts[by_column ? c : r];
        for (std::size_t k = 0; k < width && c < columns; ++k)
          sum +=
              std::int64_t{weights[(by_column ? c : r) * width + k]} * codes[(by_column ? r : c) * width + k];
        y[r * stride() + c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum));
      }
    }
    return y;
  }
};

}  // namespace

TEST_CASE("byte products are the exact sums, and nothing else is written") {
  std::mt19937_64 engine(8);
  std::size_t spans = 0;
  for (int round = 0; round < 3000; ++round) {
    const int widths[] = {1, 7, 31, 63, 127, 128}, most[] = {1, 15, 127, 255};
    const int weight = std::min(widths[engine() % 6], 127);
    const Drawn drawn(engine, weight, most[engine() % 4]);
    const auto expected = drawn.exact();
    const auto with = [&](const Way& way) {
      return drawn.by([&](const ByteProducts& p) { multiply_bytes(way, drawn.which, p); });
    };
    REQUIRE(with({.kind = Way::Kind::kReference}) == expected);
    REQUIRE(with(way_of(drawn.weights, drawn.groups, drawn.most_code)) == expected);
    if (may_use(Isa::kVnni)) REQUIRE(with({.kind = Way::Kind::kQuads}) == expected);
    if (may_use(Isa::kAmx)) REQUIRE(with({.kind = Way::Kind::kTiles}) == expected);
#if defined(__x86_64__)
    REQUIRE(drawn.by([&](const ByteProducts& p) {
      multiply_by_tiles<EmulatedTiles>(drawn.which, p, multiply_bytes_ref);
    }) == expected);
#endif
    if (!may_use(Isa::kAvx2)) continue;
    REQUIRE(with({.kind = Way::Kind::kWords}) == expected);
    const std::size_t most_span = span_in_16_bits(drawn.weights, drawn.groups, drawn.most_code);
    for (std::size_t span = most_span; span > 0; span /= 2) {
      REQUIRE(with({.kind = Way::Kind::kPairs, .span = span}) == expected);
      ++spans;
    }
  }
  if (!may_use(Isa::kAvx2)) return testing::skip("AVX2: this processor has none");
  CHECK(spans > 2000);
  if (!may_use(Isa::kVnni)) testing::skip("AVX-512 VNNI: this processor has none, or may not use it");
  if (!may_use(Isa::kAmx)) testing::skip("AMX: this processor has none, or the system does not allow it");
}

TEST_CASE("the span of 16 bits ends where a register could pass them") {
  // Four terms a group, of which a register takes two: 2 * 127 * 127 = 32258, and 255 * 64 * 2 = 32640.
  const auto all = [](std::size_t groups, int w) {
    return std::vector<std::int8_t>(groups * kGroup, static_cast<std::int8_t>(w));
  };
  CHECK(span_in_16_bits(all(1, 127), 1, 127) == 1);
  CHECK(span_in_16_bits(all(2, 127), 2, 127) == 1);
  CHECK(span_in_16_bits(all(1, 127), 1, 130) == 0);
  CHECK(span_in_16_bits(all(1, 64), 1, 255) == 1);
  CHECK(span_in_16_bits(all(1, -64), 1, 255) == 1);
  CHECK(span_in_16_bits(all(1, 65), 1, 255) == 0);
  CHECK(span_in_16_bits(all(1, -128), 1, 127) == 1);
  CHECK(span_in_16_bits(all(1, -128), 1, 128) == 0);  // -32768, which would fit alone
  CHECK(span_in_16_bits(all(156, 7), 156, 15) == 156);
  CHECK(span_in_16_bits(all(157, 7), 157, 15) == 156);
  // What counts is the whole sum where that is enough: large weights of both signs, few of each.
  std::vector<std::int8_t> mixed = all(400, 0);
  for (std::size_t g = 0; g < 400; g += 40)
    mixed[g * kGroup] = static_cast<std::int8_t>(g % 80 == 0 ? 100 : -100);
  CHECK(span_in_16_bits(mixed, 400, 60) == 400);
  CHECK(span_in_16_bits({}, 0, 255) == 1);
}

TEST_CASE("rows of weights to vectors and back") {
  std::vector<std::int16_t> weights(5 * 7);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<std::int16_t>(i * 7 % 255 - 127);
  const auto rows = byte_rows(weights, 5);
  REQUIRE(rows.has_value());
  REQUIRE(rows->size() == 5 * 8);
  CHECK((*rows)[8] == weights[7]);
  CHECK((*rows)[7] == 0);
  const auto vectors = vectors_of_rows(*rows, 2);
  CHECK(vectors.size() == 2 * kVectorBytes);
  CHECK(vectors[3 * kGroup + 1] == weights[3 * 7 + 1]);
  auto back = rows_of_vectors(vectors, 2);
  CHECK(back.size() == kLanes * 8);
  back.resize(rows->size());
  CHECK(back == *rows);
  weights[3] = 128;
  CHECK(!byte_rows(weights, 5));
  weights[3] = -128;
  CHECK(byte_rows(weights, 5));
}

TEST_CASE("codes and their padding as bytes") {
  CHECK(bytes_of(-128, 127).offset == -128);
  CHECK(bytes_of(0, 15).most == 15);
  CHECK(bytes_of(0, 255, 7)->offset == 0);
  CHECK(bytes_of(0, 15, -3)->offset == -3);
  CHECK(bytes_of(0, 15, -3)->most == 18);
  CHECK(!bytes_of(0, 255, -3));
  CHECK(!bytes_of(0, 255, 256));
  const std::vector<std::int8_t> rows = {127, 127, 127, 127, -1, 0, 0, 0};
  CHECK(starts_of(rows, 1, 3, 4) == std::vector<std::int32_t>{-4 * 127 * 3, 3, 0, 0});
}

}  // namespace crumb::runtime::integer
