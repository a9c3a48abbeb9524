#include "runtime/attention/cached_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/threads/parallel.h"
#include "runtime/memory/arena.h"
#include "runtime/meter.h"

namespace crumb::runtime {

void CachedRows::begin(std::size_t heads, std::size_t depth, const std::optional<RowCodes>& codes) {
  rows_ = scales_ = nullptr;
  bytes_ = capacity_ = 0;
  heads_ = heads;
  depth_ = depth;
  coder_.reset();
  if (codes && depth > 0 && (codes->group == 0 || depth % codes->group == 0)) coder_.emplace(*codes, depth);
  columns_ = places_in_block(depth);
}

std::size_t CachedRows::row_bytes() const { return coder_ ? coder_->code_bytes() : depth_ * sizeof(float); }

checked::Size CachedRows::bytes_for(std::size_t capacity) const {
  const checked::Size places = coder_ ? capacity : checked::align_up(capacity, kBlockRows);
  const checked::Size scales = coder_ ? checked::multiply(coder_->scales(), sizeof(float)) : checked::Size(0);
  const checked::Size row = checked::add(
      coder_ ? checked::Size(coder_->code_bytes()) : checked::multiply(depth_, sizeof(float)), scales);
  return checked::multiply(checked::multiply(heads_, places), row);
}

std::uint8_t* CachedRows::codes(std::size_t head, std::size_t place) const {
  return reinterpret_cast<std::uint8_t*>(rows_.get()) + (head * capacity_ + place) * coder_->code_bytes();
}

float* CachedRows::scales(std::size_t head, std::size_t place) const {
  return reinterpret_cast<float*>(scales_.get()) + (head * capacity_ + place) * coder_->scales();
}

/// Allocates memory for a capacity in positions; it holds no positions yet.
void CachedRows::allocate(std::size_t capacity) {
  const ArenaScope on_heap(nullptr);
  if (!coder_) capacity = in_whole_blocks(capacity);
  rows_ = metered_memory(heads_ * capacity * row_bytes());
  scales_ = coder_ ? metered_memory(heads_ * capacity * scale_bytes()) : nullptr;
  capacity_ = capacity;
  bytes_ = heads_ * capacity * (row_bytes() + scale_bytes());
}

void CachedRows::copy(const CachedRows& from, std::size_t begin, std::size_t at, std::size_t count) {
  if (count == 0) return;
  if (coder_) return copy_codes(from, begin, at, count);
  if (begin % kBlockRows == 0 && at % kBlockRows == 0) return copy_floats(from, begin, at, count);
  std::vector<float> row(depth_);
  for (std::size_t head = 0; head < heads_; ++head) {
    for (std::size_t i = 0; i < count; ++i) {
      from.get(head, begin + i, row.data());
      put(head, at + i, row.data());
    }
  }
}

void CachedRows::copy_codes(const CachedRows& from, std::size_t begin, std::size_t at, std::size_t count) {
  for (std::size_t head = 0; head < heads_; ++head) {
    std::memcpy(codes(head, at), from.codes(head, begin), count * row_bytes());
    std::memcpy(scales(head, at), from.scales(head, begin), count * scale_bytes());
  }
}

/// Precondition: both places are multiples of sixteen.
void CachedRows::copy_floats(const CachedRows& from, std::size_t begin, std::size_t at, std::size_t count) {
  const std::size_t strips = order_ == RowOrder::kStrips ? kBlockRows : 1;
  const std::size_t rows = in_whole_blocks(count) / strips;
  for (std::size_t strip = 0; strip < heads_ * strips; ++strip)
    std::memcpy(floats() + (strip * capacity_ + at) / strips * depth_,
                from.floats() + (strip * from.capacity_ + begin) / strips * depth_,
                rows * depth_ * sizeof(float));
}

void CachedRows::move_to(std::size_t capacity, std::size_t length) {
  const MeterScope uncounted(nullptr);  // it outlives the run that makes it
  CachedRows moved(*this);
  moved.allocate(capacity);
  moved.copy(*this, 0, 0, length);
  *this = std::move(moved);
}

CachedRows CachedRows::part(std::size_t begin, std::size_t end) const {
  CachedRows made(*this);
  made.allocate(end - begin);
  made.copy(*this, begin, 0, end - begin);
  return made;
}

void CachedRows::uncode(std::size_t length) {
  CachedRows plain(order_);
  plain.begin(heads_, depth_, std::nullopt);
  plain.move_to(capacity_, 0);
  std::vector<float> row(depth_);
  for (std::size_t head = 0; head < heads_; ++head) {
    for (std::size_t i = 0; i < length; ++i) {
      get(head, i, row.data());
      plain.put(head, i, row.data());
    }
  }
  *this = std::move(plain);
}

bool CachedRows::put(std::size_t head, std::size_t place, const float* row) {
  if (coder_) return coder_->encode(row, codes(head, place), scales(head, place));
  const std::size_t in_block = place % kBlockRows;
  if (order_ != RowOrder::kBlocks) {
    std::copy(row, row + depth_, const_cast<float*>(view().at(0, head, place)));
    return true;
  }
  float* const block = const_cast<float*>(view().at(0, head, place - in_block));
  if (in_block == 0) std::fill(block, block + kBlockRows * depth_, 0.0F);  // readers take whole blocks
  for (std::size_t c = 0; c < depth_; ++c) block[columns_[c] + in_block] = row[c];
  return true;
}

void CachedRows::get(std::size_t head, std::size_t place, float* row) const {
  if (coder_) return coder_->decode(codes(head, place), scales(head, place), row, 1);
  const HeadRows rows = view();
  for (std::size_t c = 0; c < depth_; ++c) row[c] = rows.element(0, head, place, c);
}

HeadRows CachedRows::view() const {
  return {floats(), heads_ * capacity_ * depth_,    capacity_ * depth_, depth_,
          order_,   capacity_ / kBlockRows * depth_};
}

CachedRows::Reading CachedRows::read(std::size_t heads, std::size_t length, int threads) const {
  if (coder_) return decoded(heads, length, threads);
  HeadRows rows = view();
  rows.batch = heads * rows.head;
  return {rows, nullptr};
}

/// Keys in blocks, values as rows: they are read while they are in a near cache.
CachedRows::Reading CachedRows::decoded(std::size_t heads, std::size_t length, int threads) const {
  constexpr std::size_t kNumbers = std::size_t{1} << 15;  // fewer numbers are not worth a thread
  const bool in_blocks = order_ == RowOrder::kBlocks;
  const std::size_t together = in_blocks ? kBlockRows : 1, blocks = (length + together - 1) / together;
  const std::size_t each = together * depth_, head = blocks * each;
  const auto memory = metered_memory(heads_ * head * sizeof(float));
  auto* const out = reinterpret_cast<float*>(memory.get());
  const auto decode_block = [&](std::size_t of_head, std::size_t block, std::vector<float>& row) {
    float* const to = out + of_head * head + block * each;
    if (!in_blocks) return coder_->decode(codes(of_head, block), scales(of_head, block), to, 1);
    std::fill(to, to + each, 0.0F);
    for (std::size_t i = 0; i < std::min(together, length - block * together); ++i) {
      const std::size_t place = block * together + i;
      coder_->decode(codes(of_head, place), scales(of_head, place), row.data(), 1);
      for (std::size_t c = 0; c < depth_; ++c) to[columns_[c] + i] = row[c];
    }
  };
  parallel_for(heads_ * blocks, std::max<std::size_t>(1, kNumbers / std::max<std::size_t>(each, 1)), threads,
               [&](std::size_t begin, std::size_t end) {
                 std::vector<float> row(depth_);
                 for (std::size_t r = begin; r < end; ++r) decode_block(r / blocks, r % blocks, row);
               });
  return {{out, heads * head, head, depth_, in_blocks ? RowOrder::kBlocks : RowOrder::kRows}, memory};
}

}  // namespace crumb::runtime
