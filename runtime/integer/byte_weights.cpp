#include "runtime/integer/byte_weights.h"

#include <algorithm>

#include "runtime/integer/byte_products.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace crumb::runtime::integer {

std::optional<std::vector<std::int8_t>> byte_rows(std::span<const std::int16_t> weights, std::size_t rows) {
  const auto fits = [](std::int16_t w) { return w >= -128 && w <= 127; };
  if (!std::ranges::all_of(weights, fits)) return std::nullopt;
  const std::size_t terms = weights.size() / std::max<std::size_t>(rows, 1);
  const std::size_t width = groups_of(terms) * kGroup;
  std::vector<std::int8_t> made(rows * width, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < terms; ++k)
      made[r * width + k] = static_cast<std::int8_t>(weights[r * terms + k]);
  }
  return made;
}

std::vector<std::int8_t> vectors_of_rows(std::span<const std::int8_t> rows, std::size_t groups) {
  const std::size_t width = groups * kGroup, count = width == 0 ? 0 : rows.size() / width;
  std::vector<std::int8_t> made(vectors_of(count) * groups * kVectorBytes, 0);
  for (std::size_t r = 0; r < count; ++r) {
    const std::size_t first = r / kLanes * groups * kVectorBytes + r % kLanes * kGroup;
    for (std::size_t g = 0; g < groups; ++g)
      std::copy_n(rows.data() + r * width + g * kGroup, kGroup, made.data() + first + g * kVectorBytes);
  }
  return made;
}

std::vector<std::int8_t> rows_of_vectors(std::span<const std::int8_t> vectors, std::size_t groups) {
  const std::size_t width = groups * kGroup, size = groups * kVectorBytes;
  const std::size_t count = size == 0 ? 0 : vectors.size() / size * kLanes;
  std::vector<std::int8_t> made(count * width, 0);
  for (std::size_t r = 0; r < count; ++r) {
    const std::size_t first = r / kLanes * size + r % kLanes * kGroup;
    for (std::size_t g = 0; g < groups; ++g)
      std::copy_n(vectors.data() + first + g * kVectorBytes, kGroup, made.data() + r * width + g * kGroup);
  }
  return made;
}

Bytes bytes_of(int least, int most) { return {least, most - least}; }

std::optional<Bytes> bytes_of(int least, int most, int zero) {
  const Bytes bytes = bytes_of(std::min(least, zero), std::max(most, zero));
  return bytes.most <= 255 ? std::optional(bytes) : std::nullopt;
}

std::vector<std::int32_t> starts_of(std::span<const std::int8_t> rows, std::size_t groups,
                                    int zero_less_offset, std::size_t count) {
  std::vector<std::int32_t> starts(count, 0);
  const std::size_t width = groups * kGroup;
  for (std::size_t r = 0; r < count && (r + 1) * width <= rows.size(); ++r) {
    std::int64_t sum = 0;
    for (const std::int8_t w : rows.subspan(r * width, width)) sum += w;
    starts[r] = static_cast<std::int32_t>(static_cast<std::uint32_t>(-sum * zero_less_offset));
  }
  return starts;
}

void interleave(const std::uint8_t* const rows[4], std::uint8_t offset, std::uint8_t* vector) {
#if defined(__SSE2__)
  const __m128i off = _mm_set1_epi8(static_cast<char>(offset));
  const auto load = [&](std::size_t i) {
    return _mm_sub_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i])), off);
  };
  const __m128i a = load(0), b = load(1), c = load(2), d = load(3);
  const __m128i low = _mm_unpacklo_epi8(a, b), high = _mm_unpackhi_epi8(a, b);
  const __m128i low2 = _mm_unpacklo_epi8(c, d), high2 = _mm_unpackhi_epi8(c, d);
  auto* const to = reinterpret_cast<__m128i*>(vector);
  _mm_storeu_si128(to, _mm_unpacklo_epi16(low, low2));
  _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(low, low2));
  _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(high, high2));
  _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(high, high2));
#else
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t i = 0; i < kGroup; ++i)
      vector[lane * kGroup + i] = static_cast<std::uint8_t>(rows[i][lane] - offset);
  }
#endif
}

}  // namespace crumb::runtime::integer
