// The sums of a row's blocks: bytes of activations times levels of weights, both as they lie in a row. Few
// rows of x are multiplied so, because nothing has to be turned for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace crumb::runtime {

/// What codes stand for, less zero points, over the unit that makes them whole.
using LevelTable = std::array<std::int8_t, 256>;

/// levels[i] = by[codes[i]]; the two may be one memory. Codes are below 2^bits.
void levels_of(const LevelTable& by, int bits, const std::uint8_t* codes, std::size_t count,
               std::int8_t* levels);

/// The same where levels are the codes, in two's complement of `bits` bits.
void extend_sign(int bits, const std::uint8_t* codes, std::size_t count, std::int8_t* levels);

/// sums[b] = the sum over the terms k of block b of q[k] * levels[k]: blocks of `block` terms, a last one of
/// what is left. Preconditions: |q| <= 127; a block has at most 65,536 terms, so that sums fit.
void block_sums(const std::int8_t* q, const std::int8_t* levels, std::size_t terms, std::size_t block,
                std::int32_t* sums);

/// The same of codes of four bits as they lie packed, two to a byte, the first in the low half. `halves` is q
/// in their order: of each 32 terms those at even places, then those at odd ones. Preconditions besides:
/// terms are a multiple of 32, and block is one, or 16.
void nibble_sums(const LevelTable& by, const std::int8_t* halves, const std::uint8_t* packed,
                 std::size_t terms, std::size_t block, std::int32_t* sums);
inline constexpr std::size_t kNibbleTerms = 32;
void to_halves(const std::int8_t* q, std::size_t terms, std::int8_t* halves);

/// For each row [0, rows) of sums and scales [rows, count]: the sum of sums[b] * scales[b], in order, each
/// step rounded. The scales become the products.
void weighted_sums(const std::int32_t* sums, float* scales, std::size_t rows, std::size_t count, float* made);

/// By the definition; kept for ever.
void nibble_sums_ref(const LevelTable& by, const std::int8_t* halves, const std::uint8_t* packed,
                     std::size_t terms, std::size_t block, std::int32_t* sums);
void levels_of_ref(const LevelTable& by, const std::uint8_t* codes, std::size_t count, std::int8_t* levels);
void block_sums_ref(const std::int8_t* q, const std::int8_t* levels, std::size_t terms, std::size_t block,
                    std::int32_t* sums);
/// Precondition: may_use(Isa::kAvx2). Levels of at most four bits.
void levels_of_avx2(const LevelTable& by, const std::uint8_t* codes, std::size_t count, std::int8_t* levels);
void nibble_sums_avx2(const LevelTable& by, const std::int8_t* halves, const std::uint8_t* packed,
                      std::size_t terms, std::size_t block, std::int32_t* sums);
void block_sums_avx2(const std::int8_t* q, const std::int8_t* levels, std::size_t terms, std::size_t block,
                     std::int32_t* sums);

}  // namespace crumb::runtime
