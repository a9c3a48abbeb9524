// Keys and values of the places before, kept from run to run for one Attention node.
//
// Keys lie as [batch, heads, capacity, depth], values turned as [batch, heads, value_depth, capacity], so that both
// products of attend() read them where they lie, and a step writes its own places alone. Capacity doubles when it is full.
// What a run appends counts once it is committed: a run that fails leaves the places before it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/array.h"
#include "runtime/attention/attention.h"

namespace crumb::runtime {

class Meter;

class KeyCache {
 public:
  struct Sizes {
    std::size_t batch = 0, heads = 0, depth = 0, value_depth = 0;
    bool operator==(const Sizes&) const = default;
  };

  /// At most so many places; 0: as many as memory has.
  explicit KeyCache(std::int64_t most_places = 0) : most_(static_cast<std::size_t>(most_places)) {}
  KeyCache(const KeyCache&) = delete;
  KeyCache& operator=(const KeyCache&) = delete;
  ~KeyCache() { uncount(); }

  std::size_t length() const { return length_; }
  const Sizes& sizes() const { return sizes_; }  ///< of the places that are there
  std::uint64_t bytes() const { return bytes_; }

  /// From here to uncount() the memory is the meter's, too. Throws Stopped; may be called again.
  void count(const std::shared_ptr<Meter>& meter);
  void uncount();

  /// `rows` more places from their keys and values, behind those that are committed. Precondition: sizes are those of the
  /// places before, where there are some. Throws Error where that is over the most, Stopped where the meter says so.
  void append(const Sizes& sizes, std::size_t rows, const HeadRows& keys, const HeadRows& values);
  void commit();  ///< what was appended last
  void forget();  ///< the same, where it is not to be

  /// Committed and appended places, for attend().
  HeadRows keys() const;
  HeadRows values() const;
  const char* finite() const { return finite_.data(); }

  void truncate(std::size_t length);  ///< precondition: length <= length()
  /// As [batch, heads, length, depth], of the type.
  Array keys_array(ElementType type) const;
  Array values_array(ElementType type) const;

 private:
  void make_room(const Sizes& sizes, std::size_t rows);
  void move_to(std::size_t capacity);

  std::size_t most_ = 0, length_ = 0, appended_ = 0, capacity_ = 0;
  Sizes sizes_;
  std::shared_ptr<std::byte[]> keys_, values_;
  std::vector<char> finite_;  ///< by [batch, heads]: every value that was ever here
  std::uint64_t bytes_ = 0, counted_ = 0;
  std::shared_ptr<Meter> meter_;
};

}  // namespace crumb::runtime
