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
}

std::size_t CachedRows::row_bytes() const { return coder_ ? coder_->code_bytes() : depth_ * sizeof(float); }

checked::Size CachedRows::bytes_for(std::size_t capacity) const {
  const checked::Size scales = coder_ ? checked::multiply(coder_->scales(), sizeof(float)) : checked::Size(0);
  const checked::Size row = checked::add(
      coder_ ? checked::Size(coder_->code_bytes()) : checked::multiply(depth_, sizeof(float)), scales);
  return checked::multiply(checked::multiply(heads_, capacity), row);
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
  rows_ = metered_memory(heads_ * capacity * row_bytes());
  scales_ = coder_ ? metered_memory(heads_ * capacity * scale_bytes()) : nullptr;
  capacity_ = capacity;
  bytes_ = heads_ * capacity * (row_bytes() + scale_bytes());
}

void CachedRows::copy(const CachedRows& from, std::size_t begin, std::size_t at, std::size_t count) {
  if (count == 0) return;
  const auto copy_strips = [&](std::byte* to, const std::byte* of, std::size_t strips, std::size_t place) {
    for (std::size_t i = 0; i < strips; ++i)
      std::memcpy(to + (i * capacity_ + at) * place, of + (i * from.capacity_ + begin) * place,
                  count * place);
  };
  const bool by_column = turned_ && !coder_;
  copy_strips(rows_.get(), from.rows_.get(), by_column ? heads_ * depth_ : heads_,
              by_column ? sizeof(float) : row_bytes());
  if (coder_) copy_strips(scales_.get(), from.scales_.get(), heads_, scale_bytes());
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
  CachedRows plain(turned_);
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
  if (!turned_) {
    std::copy(row, row + depth_, floats() + (head * capacity_ + place) * depth_);
    return true;
  }
  float* const to = floats() + head * depth_ * capacity_ + place;
  for (std::size_t c = 0; c < depth_; ++c) to[c * capacity_] = row[c];
  return true;
}

void CachedRows::get(std::size_t head, std::size_t place, float* row) const {
  if (coder_) return coder_->decode(codes(head, place), scales(head, place), row, 1);
  const std::size_t step = turned_ ? capacity_ : 1;
  const float* const from = floats() + head * depth_ * capacity_ + place * (turned_ ? 1 : depth_);
  for (std::size_t c = 0; c < depth_; ++c) row[c] = from[c * step];
}

CachedRows::Reading CachedRows::read(std::size_t heads, std::size_t length, int threads) const {
  const auto laid = [&](const float* data, std::size_t places) -> HeadRows {
    const std::size_t head = places * depth_;
    if (turned_) return {data, heads * head, head, 1, places};
    return {data, heads * head, head, depth_, 1};
  };
  if (!coder_) return {laid(floats(), capacity_), nullptr};
  constexpr std::size_t kNumbers = std::size_t{1} << 15;  // fewer numbers are not worth a thread
  const auto memory = metered_memory(heads_ * length * depth_ * sizeof(float));
  auto* const out = reinterpret_cast<float*>(memory.get());
  const std::size_t step = turned_ ? length : 1, row = turned_ ? 1 : depth_;
  parallel_for(heads_ * length, std::max<std::size_t>(1, kNumbers / std::max<std::size_t>(depth_, 1)),
               threads, [&](std::size_t begin, std::size_t end) {
                 for (std::size_t r = begin; r < end; ++r) {
                   const std::size_t head = r / length, i = r % length;
                   coder_->decode(codes(head, i), scales(head, i), out + head * length * depth_ + i * row,
                                  step);
                 }
               });
  return {laid(out, length), memory};
}

}  // namespace crumb::runtime
