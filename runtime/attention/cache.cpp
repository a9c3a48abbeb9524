#include "runtime/attention/cache.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "base/checked_size.h"
#include "runtime/memory/arena.h"
#include "runtime/meter.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kLeast = 64;  // the least capacity in positions

std::size_t size_of(std::int64_t size) { return static_cast<std::size_t>(size); }

}  // namespace

void KeyCache::count(const std::shared_ptr<Meter>& meter) {
  uncount();
  if (!meter) return;
  meter->take(bytes());
  meter_ = meter;
  counted_ = bytes();
}

void KeyCache::uncount() {
  if (meter_) meter_->give(counted_);
  meter_ = nullptr;
  counted_ = 0;
}

/// Moves to memory for so many positions, which are at least the committed ones.
void KeyCache::move_to(std::size_t capacity) {
  const checked::Size all = checked::add(keys_.bytes_for(capacity), values_.bytes_for(capacity));
  if (!all) throw Error("a cache of " + std::to_string(capacity) + " places is too large");
  if (meter_) meter_->take(*all);
  try {
    keys_.move_to(capacity, length_);
    values_.move_to(capacity, length_);
  } catch (const std::bad_alloc&) {
    if (meter_) meter_->give(*all);
    throw Error("there is no memory for a cache of " + std::to_string(capacity) + " places");
  }
  if (meter_) meter_->give(counted_);
  counted_ = meter_ ? *all : 0;
}

void KeyCache::make_room(const Sizes& sizes, std::size_t rows) {
  const auto needed = checked::narrow<std::int64_t>(checked::add(length_, rows));
  if (!needed || (most_ > 0 && size_of(*needed) > most_)) {
    throw Error(std::to_string(length_) + " places and " + std::to_string(rows) +
                " more are over the most of " + std::to_string(most_));
  }
  if (!(sizes == sizes_)) {  // the cache is empty
    if (meter_) meter_->give(std::exchange(counted_, 0));
    sizes_ = sizes;
    keys_.begin(sizes.batch * sizes.heads, sizes.depth, codes_.keys);
    values_.begin(sizes.batch * sizes.heads, sizes.value_depth, codes_.values);
  }
  if (length_ == 0) finite_.assign(sizes.batch * sizes.heads, 1);
  const std::size_t least = size_of(*needed);
  const std::size_t capacity = std::min(keys_.capacity(), values_.capacity());
  if (least <= capacity) return;
  const std::size_t requested = std::max({kLeast, least, least / 2 > capacity ? 0 : capacity * 2});
  try {
    move_to(most_ > 0 ? std::min(requested, most_) : requested);
  } catch (const Error&) {  // over a limit that what is needed may be within
    move_to(least);
  }
}

void KeyCache::append(const Sizes& sizes, std::size_t rows, const HeadRows& keys, const HeadRows& values) {
  appended_ = 0;
  make_room(sizes, rows);
  for (std::size_t b = 0; b < sizes.batch; ++b) {
    for (std::size_t h = 0; h < sizes.heads; ++h) {
      bool finite = finite_[b * sizes.heads + h] != 0;
      for (std::size_t i = 0; i < rows && finite; ++i) {
        const float* const value = values.at(b, h, i);
        finite = std::all_of(value, value + sizes.value_depth, [](float x) { return std::isfinite(x); });
      }
      finite_[b * sizes.heads + h] = finite ? 1 : 0;
    }
  }
  put(keys_, rows, keys);
  put(values_, rows, values);
  appended_ = rows;
}

void KeyCache::put(CachedRows& rows, std::size_t count, const HeadRows& from) {
  for (std::size_t head = 0; head < sizes_.batch * sizes_.heads; ++head) {
    for (std::size_t i = 0; i < count; ++i) {
      if (rows.put(head, length_ + i, from.at(head / sizes_.heads, head % sizes_.heads, i))) continue;
      uncode(rows);
      return put(rows, count, from);
    }
  }
}

void KeyCache::uncode(CachedRows& rows) {
  CachedRows plain(rows);
  try {
    plain.uncode(length_);
  } catch (const std::bad_alloc&) {
    throw Error("there is no memory for a cache of " + std::to_string(rows.capacity()) + " places");
  }
  const std::uint64_t more = plain.bytes() - rows.bytes();
  if (meter_) {
    meter_->take(more);
    counted_ += more;
  }
  rows = std::move(plain);
}

void KeyCache::commit() { length_ += std::exchange(appended_, 0); }
void KeyCache::forget() { appended_ = 0; }

void KeyCache::truncate(std::size_t length) {
  length_ = length;
  appended_ = 0;
}

KeyCache::Tail KeyCache::tail(std::size_t length) const {
  return {.places = length_ - length,
          .sizes = sizes_,
          .keys = keys_.part(length, length_),
          .values = values_.part(length, length_),
          .finite = finite_};
}

void KeyCache::put_back(const Tail& tail) {
  appended_ = 0;
  if (tail.places == 0) return;
  make_room(tail.sizes, tail.places);
  put_back(keys_, tail.keys, tail.places, tail.sizes.depth);
  put_back(values_, tail.values, tail.places, tail.sizes.value_depth);
  for (std::size_t i = 0; i < finite_.size(); ++i) finite_[i] = finite_[i] && tail.finite[i] ? 1 : 0;
  length_ += tail.places;
}

/// Since the tail was made, rows may have become floats, or codes in a cache that began anew.
void KeyCache::put_back(CachedRows& rows, const CachedRows& tail, std::size_t count, std::size_t depth) {
  if (rows.is_coded() == tail.is_coded()) return rows.copy_places(tail, length_, count);
  if (rows.is_coded()) uncode(rows);
  std::vector<float> row(depth);
  for (std::size_t head = 0; head < sizes_.batch * sizes_.heads; ++head) {
    for (std::size_t i = 0; i < count; ++i) {
      tail.get(head, i, row.data());
      rows.put(head, length_ + i, row.data());
    }
  }
}

Array KeyCache::array_of(const CachedRows& rows, std::size_t depth, ElementType type) const {
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  Array made(type, {size(sizes_.batch), size(sizes_.heads), size(length_), size(depth)});
  float* to = made.writable<float>().data();
  for (std::size_t head = 0; head < sizes_.batch * sizes_.heads; ++head) {
    for (std::size_t i = 0; i < length_; ++i, to += depth) rows.get(head, i, to);
  }
  return made;
}

}  // namespace crumb::runtime
