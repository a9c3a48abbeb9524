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

constexpr std::size_t kLeast = 64;  // places

std::size_t size_of(std::int64_t size) { return static_cast<std::size_t>(size); }

float* floats(const std::shared_ptr<std::byte[]>& memory) { return reinterpret_cast<float*>(memory.get()); }

}  // namespace

void KeyCache::count(const std::shared_ptr<Meter>& meter) {
  uncount();
  if (!meter) return;
  meter->take(bytes_);
  meter_ = meter;
  counted_ = bytes_;
}

void KeyCache::uncount() {
  if (meter_) meter_->give(counted_);
  meter_ = nullptr;
  counted_ = 0;
}

/// Into memory for so many places, which are not fewer than those that are committed.
void KeyCache::move_to(std::size_t capacity) {
  const std::size_t heads = sizes_.batch * sizes_.heads;
  const checked::Size keys = checked::multiply(
      checked::multiply(checked::multiply(checked::multiply(sizes_.batch, sizes_.heads), capacity),
                        sizes_.depth),
      sizeof(float));
  const checked::Size values = checked::multiply(
      checked::multiply(checked::multiply(heads, capacity), sizes_.value_depth), sizeof(float));
  const checked::Size all = checked::add(keys, values);
  if (!all) throw Error("a cache of " + std::to_string(capacity) + " places is too large");
  if (meter_) meter_->take(*all);
  std::shared_ptr<std::byte[]> new_keys, new_values;
  try {
    const MeterScope uncounted(nullptr);  // it outlives the run that makes it
    const ArenaScope on_heap(nullptr);
    new_keys = metered_memory(*keys);
    new_values = metered_memory(*values);
  } catch (const std::bad_alloc&) {
    if (meter_) meter_->give(*all);
    throw Error("there is no memory for a cache of " + std::to_string(capacity) + " places");
  }
  for (std::size_t h = 0; length_ > 0 && h < heads; ++h) {
    const float* const k = floats(keys_) + h * capacity_ * sizes_.depth;
    std::copy(k, k + length_ * sizes_.depth, floats(new_keys) + h * capacity * sizes_.depth);
  }
  for (std::size_t c = 0; length_ > 0 && c < heads * sizes_.value_depth; ++c) {
    const float* const v = floats(values_) + c * capacity_;
    std::copy(v, v + length_, floats(new_values) + c * capacity);
  }
  keys_ = std::move(new_keys);
  values_ = std::move(new_values);
  if (meter_) meter_->give(counted_);
  counted_ = meter_ ? *all : 0;
  bytes_ = *all;
  capacity_ = capacity;
}

void KeyCache::make_room(const Sizes& sizes, std::size_t rows) {
  const auto needed = checked::narrow<std::int64_t>(checked::add(length_, rows));
  if (!needed || (most_ > 0 && size_of(*needed) > most_)) {
    throw Error(std::to_string(length_) + " places and " + std::to_string(rows) +
                " more are over the most of " + std::to_string(most_));
  }
  if (!(sizes == sizes_)) {  // nothing is there yet
    if (meter_) meter_->give(std::exchange(counted_, 0));
    keys_ = values_ = nullptr;
    bytes_ = capacity_ = 0;
    sizes_ = sizes;
  }
  if (length_ == 0) finite_.assign(sizes.batch * sizes.heads, 1);
  const std::size_t least = size_of(*needed);
  if (least <= capacity_) return;
  const std::size_t wish = std::max({kLeast, least, least / 2 > capacity_ ? 0 : capacity_ * 2});
  try {
    move_to(most_ > 0 ? std::min(wish, most_) : wish);
  } catch (const Error&) {  // over a limit that what is needed may be within
    move_to(least);
  }
}

void KeyCache::append(const Sizes& sizes, std::size_t rows, const HeadRows& keys, const HeadRows& values) {
  appended_ = 0;
  make_room(sizes, rows);
  for (std::size_t b = 0; b < sizes.batch; ++b) {
    for (std::size_t h = 0; h < sizes.heads; ++h) {
      const std::size_t head = b * sizes.heads + h;
      bool finite = finite_[head] != 0;
      float* const k = floats(keys_) + (head * capacity_ + length_) * sizes.depth;
      float* const v = floats(values_) + head * sizes.value_depth * capacity_ + length_;
      for (std::size_t i = 0; i < rows; ++i) {
        const float* const key = keys.at(b, h, i);
        std::copy(key, key + sizes.depth, k + i * sizes.depth);
        const float* const value = values.at(b, h, i);
        for (std::size_t c = 0; c < sizes.value_depth; ++c) {
          v[c * capacity_ + i] = value[c];
          finite = finite && std::isfinite(value[c]);
        }
      }
      finite_[head] = finite ? 1 : 0;
    }
  }
  appended_ = rows;
}

void KeyCache::commit() { length_ += std::exchange(appended_, 0); }
void KeyCache::forget() { appended_ = 0; }

void KeyCache::truncate(std::size_t length) {
  length_ = length;
  appended_ = 0;
}

HeadRows KeyCache::keys() const {
  return {floats(keys_), sizes_.heads * capacity_ * sizes_.depth, capacity_ * sizes_.depth, sizes_.depth, 1};
}

HeadRows KeyCache::values() const {
  const std::size_t head = sizes_.value_depth * capacity_;
  return {floats(values_), sizes_.heads * head, head, 1, capacity_};
}

Array KeyCache::keys_array(ElementType type) const {
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  Array made(type, {size(sizes_.batch), size(sizes_.heads), size(length_), size(sizes_.depth)});
  float* to = made.writable<float>().data();
  for (std::size_t b = 0; b < sizes_.batch; ++b) {
    for (std::size_t h = 0; h < sizes_.heads; ++h)
      to = std::copy(keys().at(b, h, 0), keys().at(b, h, length_), to);
  }
  return made;
}

Array KeyCache::values_array(ElementType type) const {
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  Array made(type, {size(sizes_.batch), size(sizes_.heads), size(length_), size(sizes_.value_depth)});
  float* to = made.writable<float>().data();
  for (std::size_t b = 0; b < sizes_.batch; ++b) {
    for (std::size_t h = 0; h < sizes_.heads; ++h) {
      for (std::size_t i = 0; i < length_; ++i) {
        for (std::size_t c = 0; c < sizes_.value_depth; ++c) *to++ = values().at(b, h, i)[c * capacity_];
      }
    }
  }
  return made;
}

}  // namespace crumb::runtime
