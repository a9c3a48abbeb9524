// The sums over a row's blocks of bytes of activations times levels of weights, both in the order of the row.
// This is for few rows of x, because it needs no transposed weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace crumb::runtime {

/// The level of each code: its value before zero points, in units that make all levels integers.
using LevelTable = std::array<std::int8_t, 256>;

/// levels[i] = by[codes[i]]; the two may be one memory. Codes are below 2^bits.
void levels_of(const LevelTable& by, int bits, const std::uint8_t* codes, std::size_t count,
               std::int8_t* levels);

/// levels_of() for formats whose levels are the codes, in two's complement of `bits` bits.
void extend_sign(int bits, const std::uint8_t* codes, std::size_t count, std::int8_t* levels);

/// sums[b] = the sum over the terms k of block b of q[k] * levels[k]. Blocks have `block` terms, the last one
/// what is left. Preconditions: |q| <= 127; a block has at most 65,536 terms, so that sums fit.
void block_sums(const std::int8_t* q, const std::int8_t* levels, std::size_t terms, std::size_t block,
                std::int32_t* sums);

/// block_sums() of packed codes of four bits, two to a byte, the first in the low half. `halves` is q in
/// another order: of each 32 terms those of even index, then those of odd index. More preconditions: the
/// number of terms is a multiple of 32, and block is a multiple of 32, or 16.
void nibble_sums(const LevelTable& by, const std::int8_t* halves, const std::uint8_t* packed,
                 std::size_t terms, std::size_t block, std::int32_t* sums);
inline constexpr std::size_t kNibbleTerms = 32;
void to_halves(const std::int8_t* q, std::size_t terms, std::int8_t* halves);

/// For each row [0, rows) of sums and scales [rows, count]: the sum of sums[b] * scales[b] in the order of b,
/// rounded at each step. The products overwrite the scales.
void weighted_sums(const std::int32_t* sums, float* scales, std::size_t rows, std::size_t count, float* made);

/// The references, by the definition.
void nibble_sums_ref(const LevelTable& by, const std::int8_t* halves, const std::uint8_t* packed,
                     std::size_t terms, std::size_t block, std::int32_t* sums);
void levels_of_ref(const LevelTable& by, const std::uint8_t* codes, std::size_t count, std::int8_t* levels);
void block_sums_ref(const std::int8_t* q, const std::int8_t* levels, std::size_t terms, std::size_t block,
                    std::int32_t* sums);
/// Precondition: may_use(Isa::kAvx2). Levels have at most four bits.
void levels_of_avx2(const LevelTable& by, const std::uint8_t* codes, std::size_t count, std::int8_t* levels);
void nibble_sums_avx2(const LevelTable& by, const std::int8_t* halves, const std::uint8_t* packed,
                      std::size_t terms, std::size_t block, std::int32_t* sums);
void block_sums_avx2(const std::int8_t* q, const std::int8_t* levels, std::size_t terms, std::size_t block,
                     std::int32_t* sums);

}  // namespace crumb::runtime
