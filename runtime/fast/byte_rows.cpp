#include "runtime/fast/byte_rows.h"

#include <algorithm>
#include <bit>

#include "base/processor.h"
#include "base/threads/parallel.h"

namespace crumb::runtime {
namespace {

constexpr float kMostCode = 127, kLeastMagnitude = 0x1p-100F;
constexpr std::uint32_t kInfinity = 0x7F800000U;
constexpr std::size_t kWorthAThread = std::size_t{1} << 16;  // terms that are worth a thread

/// False where the row is not for bytes.
bool make_row(const float* x, ByteRows& to, std::size_t r) {
  const std::uint32_t most = largest_bits(x, to.terms);
  const auto magnitude = std::bit_cast<float>(most);
  if (most >= kInfinity || (most != 0 && magnitude < kLeastMagnitude)) return false;
  to.scales[r] = magnitude / kMostCode;
  std::int8_t* const q = to.q.data() + r * to.stride;
  to_bytes(x, most == 0 ? 0.0F : kMostCode / magnitude, to.terms, q);
  sum_blocks(q, to.terms, to.block, to.sums.data() + r * to.blocks);
  return true;
}

}  // namespace

bool ByteRows::make(const exact::Products& p, std::size_t terms_of_block, int threads) {
  rows = p.rows;
  terms = p.terms;
  stride = (terms + kPadded - 1) / kPadded * kPadded;
  block = std::clamp<std::size_t>(terms_of_block, 1, std::max<std::size_t>(terms, 1));
  blocks = (terms + block - 1) / block;
  q.assign(rows * stride, 0);
  sums.assign(rows * blocks, 0);
  scales.assign(rows, 0);
  std::vector<char> is_made(rows, 0);
  parallel_for(rows, 1 + kWorthAThread / std::max<std::size_t>(terms, 1), threads,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t r = begin; r < end; ++r)
                   is_made[r] = make_row(p.x + r * p.x_stride, *this, r);
               });
  return std::ranges::count(is_made, 0) == 0;
}

std::uint32_t largest_bits_ref(const float* x, std::size_t count) {
  std::uint32_t most = 0;  // magnitudes are ordered as their bits are, NaN above all
  for (std::size_t k = 0; k < count; ++k)
    most = std::max(most, std::bit_cast<std::uint32_t>(x[k]) & 0x7FFFFFFFU);
  return most;
}

void to_bytes_ref(const float* x, float inverse, std::size_t count, std::int8_t* q) {
  for (std::size_t k = 0; k < count; ++k) {
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, ties to even.
    const float rounded = (x[k] * inverse + 0x1.8p23F) - 0x1.8p23F;
    q[k] = static_cast<std::int8_t>(rounded);
  }
}

void sum_blocks_ref(const std::int8_t* q, std::size_t terms, std::size_t block, std::int32_t* sums) {
  for (std::size_t begin = 0; begin < terms; begin += block) {
    std::int32_t sum = 0;
    for (std::size_t k = begin; k < std::min(terms, begin + block); ++k) sum += q[k];
    *sums++ = sum;
  }
}

std::uint32_t largest_bits(const float* x, std::size_t count) {
  return may_use(Isa::kAvx2) ? largest_bits_avx2(x, count) : largest_bits_ref(x, count);
}

void to_bytes(const float* x, float inverse, std::size_t count, std::int8_t* q) {
  if (may_use(Isa::kAvx2)) return to_bytes_avx2(x, inverse, count, q);
  to_bytes_ref(x, inverse, count, q);
}

void sum_blocks(const std::int8_t* q, std::size_t terms, std::size_t block, std::int32_t* sums) {
  if (may_use(Isa::kAvx2)) return sum_blocks_avx2(q, terms, block, sums);
  sum_blocks_ref(q, terms, block, sums);
}

}  // namespace crumb::runtime
