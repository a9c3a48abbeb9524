#include "runtime/fast/square_sums.h"

#include <algorithm>
#include <cstring>

#include "base/threads/parallel.h"

namespace crumb::runtime {
namespace {

constexpr std::int32_t kLeastByte = -128, kMostByte = 127;
constexpr std::size_t kCopied = std::size_t{1} << 18;  // bytes that are worth a thread

std::size_t in_whole(std::size_t count, std::size_t size) { return (count + size - 1) / size; }

}  // namespace

LevelCodes signed_bytes(const LevelCodes& levels) {
  if (levels.bits == 7 && levels.flip)
    return levels;  // up to 127 already, and kernels have no table for them
  LevelCodes made = levels;
  const bool fits = levels.least >= kLeastByte && levels.least + levels.widest <= kMostByte;
  made.least = fits ? 0 : levels.least - kLeastByte;
  const std::int32_t change = levels.least - made.least;
  for (std::uint8_t& byte : made.above) byte = static_cast<std::uint8_t>(byte + change);
  made.flip.reset();
  if (levels.bits == 8 && levels.flip && change == kLeastByte)
    made.flip = static_cast<std::uint8_t>(*levels.flip ^ 0x80U);
  return made;
}

ChunkedRows::ChunkedRows(const ByteTerms& x, std::size_t block, int threads)
    : terms_(x.terms), block_(std::min(block, x.terms)) {
  blocks_ = in_whole(terms_, block_);
  chunk_ = std::min(kMostChunk, in_whole(block_, 4) * 4);
  chunks_of_block_ = in_whole(block_, chunk_);
  chunks_ = blocks_ * chunks_of_block_;
  sixteens_ = in_whole(x.rows, kSide);
  lines_.resize(in_whole(sixteens_ * chunks_ * kSide * chunk_, kTileLine));
  sums_.assign(sixteens_ * blocks_ * kSide, 0);
  parallel_for(sixteens_, 1 + kCopied / (kSide * terms_), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) fill(x, i);
  });
}

void ChunkedRows::fill(const ByteTerms& x, std::size_t sixteen) {
  const std::size_t rows = std::min(kSide, x.rows - sixteen * kSide);
  std::int8_t* const chunks =
      reinterpret_cast<std::int8_t*>(lines_.data()) + sixteen * chunks_ * kSide * chunk_;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t r = sixteen * kSide + i;
    const std::int8_t* const q = x.q + r * x.stride;
    for (std::size_t b = 0; b < blocks_; ++b) {
      const std::size_t begin = b * block_, end = std::min(terms_, begin + block_);
      std::int8_t* to = chunks + (b * chunks_of_block_ * kSide + i) * chunk_;
      for (std::size_t k = begin; k < end; k += chunk_, to += kSide * chunk_)
        std::memcpy(to, q + k, std::min(chunk_, end - k));
      sums_[(sixteen * blocks_ + b) * kSide + i] = x.sums[r * x.sums_stride + b];
    }
  }
}

}  // namespace crumb::runtime
