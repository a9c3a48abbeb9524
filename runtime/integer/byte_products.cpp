#include "runtime/integer/byte_products.h"

#include <algorithm>
#include <cstdio>

#include "base/processor.h"

namespace crumb::runtime::integer {
namespace {

/// Sums without a sign, which may wrap.
template <class Row, class Vector>
void by_definition(const ByteProducts& p, bool starts_by_row) {
  const auto* const vectors = reinterpret_cast<const Vector*>(p.vector);
  for (std::size_t r = 0; r < p.rows; ++r) {
    const auto* const row = reinterpret_cast<const Row*>(p.row + r * p.row_stride);
    for (std::size_t v = 0; v < p.vectors; ++v) {
      std::uint32_t sums[kLanes];
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        sums[lane] = static_cast<std::uint32_t>(p.start[starts_by_row ? r : v * kLanes + lane]);
      for (std::size_t g = 0; g < p.groups; ++g) {
        const Vector* const vector = vectors + v * p.vector_step() + g * kVectorBytes;
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          std::int32_t sum = 0;
          for (std::size_t i = 0; i < kGroup; ++i) sum += row[g * kGroup + i] * vector[lane * kGroup + i];
          sums[lane] += static_cast<std::uint32_t>(sum);
        }
      }
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        p.y[r * p.y_stride + v * kLanes + lane] = static_cast<std::int32_t>(sums[lane]);
    }
  }
}

constexpr std::int64_t kMost16 = 32767;

}  // namespace

void multiply_bytes_ref(InVectors which, const ByteProducts& p) {
  if (which == InVectors::kWeights) {
    by_definition<std::uint8_t, std::int8_t>(p, false);
  } else {
    by_definition<std::int8_t, std::uint8_t>(p, true);
  }
}

std::size_t span_in_16_bits(std::span<const std::int8_t> rows, std::size_t groups, int most) {
  if (groups == 0) return 1;
  // A register of 16 bits takes one half of each group: terms 0 and 1, or 2 and 3.
  constexpr std::size_t kHalf = kGroup / 2;
  std::int64_t most_pair = 1;  // by magnitude
  bool all_fit = true;
  const std::size_t width = groups * kGroup;
  for (std::size_t first = 0; first < rows.size(); first += width) {
    for (std::size_t half = 0; half < kGroup; half += kHalf) {
      std::int64_t up = 0, down = 0;
      for (std::size_t g = 0; g < groups; ++g) {
        std::int64_t pair_up = 0, pair_down = 0;
        for (std::size_t i = half; i < half + kHalf; ++i) {
          const std::int64_t product = std::int64_t{most} * rows[first + g * kGroup + i];
          (product > 0 ? pair_up : pair_down) += product;
        }
        most_pair = std::max({most_pair, pair_up, -pair_down});
        up += pair_up;
        down += pair_down;
      }
      all_fit = all_fit && up <= kMost16 && -down <= kMost16;
    }
  }
  if (most_pair > kMost16) return 0;
  return all_fit ? groups : std::min(groups, static_cast<std::size_t>(kMost16 / most_pair));
}

Way way_of_any_bytes(std::size_t groups) {
  if (may_use(Isa::kAmx) && groups >= kTileGroups) return {.kind = Way::Kind::kTiles};
  if (may_use(Isa::kVnni)) return {.kind = Way::Kind::kQuads};
  return {.kind = may_use(Isa::kAvx2) ? Way::Kind::kWords : Way::Kind::kReference};
}

Way way_of(std::span<const std::int8_t> rows, std::size_t groups, int most) {
  const Way any = way_of_any_bytes(groups);
  if (any.kind != Way::Kind::kWords) return any;
  const std::size_t span = span_in_16_bits(rows, groups, most);
  return span == 0 ? any : Way{.kind = Way::Kind::kPairs, .span = span};
}

std::string registers_of(const Way& way, std::size_t groups, std::int64_t least, std::int64_t most) {
  const bool fits = least >= -kMost16 && most <= kMost16;
  const char* text = nullptr;
  switch (way.kind) {
    case Way::Kind::kReference: text = "int32, no vectors: sums"; break;
    case Way::Kind::kWords: text = "int32, vpmaddwd: two products can pass 16 bits, sums"; break;
    case Way::Kind::kQuads:
      text = fits ? "int32, vpdpbusd (16 bits would do, and be slower): sums" : "int32, vpdpbusd: sums";
      break;
    case Way::Kind::kTiles: text = "int32, tdpbusd: sums"; break;
    case Way::Kind::kPairs: text = "int16, vpmaddubsw: proven to hold every sum,"; break;
  }
  char by_span[120];
  if (way.kind == Way::Kind::kPairs && !way.is_all_in_16_bits(groups)) {
    std::snprintf(by_span, sizeof by_span,
                  "int16 over %zu terms, then int32, vpmaddubsw: proven to hold so many, sums",
                  kGroup * way.span);
    text = by_span;
  }
  return text + range_of(least, most);
}

std::string range_of(std::int64_t least, std::int64_t most) {
  char made[64];
  std::snprintf(made, sizeof made, " in [%lld, %lld]", static_cast<long long>(least),
                static_cast<long long>(most));
  return made;
}

void multiply_bytes(const Way& way, InVectors which, const ByteProducts& products) {
  switch (way.kind) {
    case Way::Kind::kReference: return multiply_bytes_ref(which, products);
    case Way::Kind::kWords: return multiply_words_avx2(which, products);
    case Way::Kind::kPairs: return multiply_pairs_avx2(which, products, way.span);
    case Way::Kind::kQuads: return multiply_quads_vnni(which, products);
    case Way::Kind::kTiles: return multiply_tiles_amx(which, products);
  }
}

}  // namespace crumb::runtime::integer
