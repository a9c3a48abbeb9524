#include "runtime/fast/row_sums.h"

#include <algorithm>

#include "base/processor.h"

namespace crumb::runtime {

void levels_of_ref(const LevelTable& by, const std::uint8_t* codes, std::size_t count, std::int8_t* levels) {
  for (std::size_t i = 0; i < count; ++i) levels[i] = by[codes[i]];
}

void block_sums_ref(const std::int8_t* q, const std::int8_t* levels, std::size_t terms, std::size_t block,
                    std::int32_t* sums) {
  for (std::size_t begin = 0; begin < terms; begin += block) {
    std::int32_t sum = 0;
    for (std::size_t k = begin; k < std::min(terms, begin + block); ++k) sum += q[k] * levels[k];
    *sums++ = sum;
  }
}

void to_halves(const std::int8_t* q, std::size_t terms, std::int8_t* halves) {
  constexpr std::size_t kHalf = kNibbleTerms / 2;
  for (std::size_t k = 0; k < terms; k += kNibbleTerms) {
    for (std::size_t i = 0; i < kHalf; ++i) {
      halves[k + i] = q[k + 2 * i];
      halves[k + kHalf + i] = q[k + 2 * i + 1];
    }
  }
}

void nibble_sums_ref(const LevelTable& by, const std::int8_t* halves, const std::uint8_t* packed,
                     std::size_t terms, std::size_t block, std::int32_t* sums) {
  constexpr std::size_t kHalf = kNibbleTerms / 2;
  for (std::size_t begin = 0; begin < terms; begin += block) {
    std::int32_t sum = 0;
    for (std::size_t k = begin; k < std::min(terms, begin + block); ++k) {
      const std::size_t in = k % kNibbleTerms;
      sum += halves[k - in + in / 2 + in % 2 * kHalf] *
             by[in % 2 == 0 ? packed[k / 2] & 15 : packed[k / 2] >> 4];
    }
    *sums++ = sum;
  }
}

void nibble_sums(const LevelTable& by, const std::int8_t* halves, const std::uint8_t* packed,
                 std::size_t terms, std::size_t block, std::int32_t* sums) {
  if (may_use(Isa::kAvx2)) return nibble_sums_avx2(by, halves, packed, terms, block, sums);
  nibble_sums_ref(by, halves, packed, terms, block, sums);
}

void weighted_sums(const std::int32_t* sums, float* scales, std::size_t rows, std::size_t count,
                   float* made) {
  for (std::size_t i = 0; i < rows * count; ++i) scales[i] *= static_cast<float>(sums[i]);
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) {  // side by side: each addition waits for the one before it
    const float* const at = scales + r * count;
    float a = 0, b = 0, c = 0, d = 0;
    for (std::size_t i = 0; i < count; ++i) {
      a += at[i];
      b += at[count + i];
      c += at[2 * count + i];
      d += at[3 * count + i];
    }
    made[r] = a;
    made[r + 1] = b;
    made[r + 2] = c;
    made[r + 3] = d;
  }
  for (; r < rows; ++r) {
    made[r] = 0;
    for (std::size_t i = 0; i < count; ++i) made[r] += scales[r * count + i];
  }
}

void extend_sign(int bits, const std::uint8_t* codes, std::size_t count, std::int8_t* levels) {
  const auto sign = static_cast<std::uint8_t>(1U << (bits - 1));
  for (std::size_t i = 0; i < count; ++i)
    levels[i] = static_cast<std::int8_t>(static_cast<std::uint8_t>((codes[i] ^ sign) - sign));
}

void levels_of(const LevelTable& by, int bits, const std::uint8_t* codes, std::size_t count,
               std::int8_t* levels) {
  if (bits <= 4 && may_use(Isa::kAvx2)) return levels_of_avx2(by, codes, count, levels);
  levels_of_ref(by, codes, count, levels);
}

void block_sums(const std::int8_t* q, const std::int8_t* levels, std::size_t terms, std::size_t block,
                std::int32_t* sums) {
  if (may_use(Isa::kAvx2)) return block_sums_avx2(q, levels, terms, block, sums);
  block_sums_ref(q, levels, terms, block, sums);
}

}  // namespace crumb::runtime
