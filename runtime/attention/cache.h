// Keys and values of the places before, kept from run to run for the Attention nodes that attend over them:
// one appends, and each reads.
//
// Keys lie as [batch, heads, capacity, depth], values turned as [batch, heads, value_depth, capacity], so that both
// products of attend() read them where they lie, and a step writes its own places alone. What a quantizer made lies as codes
// (coded_rows.h), of which each run decodes a layer at a time; where something comes that is no codes after all, they become
// floats. Capacity doubles when it is full. What a run appends counts once it is committed: a run that fails leaves the
// places before it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/array.h"
#include "runtime/attention/attention.h"
#include "runtime/attention/cache_codes.h"
#include "runtime/attention/cached_rows.h"

namespace crumb::runtime {

class Meter;

class KeyCache {
 public:
  struct Sizes {
    std::size_t batch = 0, heads = 0, depth = 0, value_depth = 0;
    bool operator==(const Sizes&) const = default;
  };

  /// At most so many places; 0: as many as memory has.
  explicit KeyCache(std::int64_t most_places = 0, CacheCodes codes = {})
      : most_(static_cast<std::size_t>(most_places)), codes_(codes) {}
  KeyCache(const KeyCache&) = delete;
  KeyCache& operator=(const KeyCache&) = delete;
  ~KeyCache() { uncount(); }

  std::size_t length() const { return length_; }              ///< places that are committed
  std::size_t places() const { return length_ + appended_; }  ///< and appended
  const Sizes& sizes() const { return sizes_; }               ///< of the places that are there
  std::uint64_t bytes() const { return keys_.bytes() + values_.bytes(); }

  /// From here to uncount() the memory is the meter's, too. Throws Stopped; may be called again.
  void count(const std::shared_ptr<Meter>& meter);
  void uncount();

  /// `rows` more places from their keys and values, behind those that are committed. Precondition: sizes are those of the
  /// places before, where there are some. Throws Error where that is over the most, Stopped where the meter says so.
  void append(const Sizes& sizes, std::size_t rows, const HeadRows& keys, const HeadRows& values);
  void commit();  ///< what was appended last
  void forget();  ///< the same, where it is not to be

  /// Committed and appended places, for attend().
  CachedRows::Reading keys(int threads) const { return keys_.read(sizes_.heads, places(), threads); }
  CachedRows::Reading values(int threads) const { return values_.read(sizes_.heads, places(), threads); }
  const char* finite() const { return finite_.data(); }

  void truncate(std::size_t length);  ///< precondition: length <= length()

  /// Places that were behind others, as they lay there.
  struct Tail {
    std::size_t places = 0;
    Sizes sizes;
    CachedRows keys{false}, values{true};
    std::vector<char> finite;
  };
  /// The places behind the first `length`, which stay here, too. In memory of the scope's meter; throws Stopped and
  /// std::bad_alloc. Precondition: length <= length().
  Tail tail(std::size_t length) const;
  /// Puts them behind those that are committed. Throws as append() does. Precondition: as many are committed as before the
  /// tail was made, and are the same.
  void put_back(const Tail& tail);

  /// As [batch, heads, length, depth], of the type.
  Array keys_array(ElementType type) const { return array_of(keys_, sizes_.depth, type); }
  Array values_array(ElementType type) const { return array_of(values_, sizes_.value_depth, type); }

 private:
  void make_room(const Sizes& sizes, std::size_t rows);
  void move_to(std::size_t capacity);
  void put(CachedRows& rows, std::size_t count, const HeadRows& from);
  void uncode(CachedRows& rows);
  void put_back(CachedRows& rows, const CachedRows& tail, std::size_t count, std::size_t depth);
  Array array_of(const CachedRows& rows, std::size_t depth, ElementType type) const;

  std::size_t most_ = 0, length_ = 0, appended_ = 0;
  CacheCodes codes_;
  Sizes sizes_;
  CachedRows keys_{false}, values_{true};
  std::vector<char> finite_;  ///< by [batch, heads]: every value that was ever here
  std::uint64_t counted_ = 0;
  std::shared_ptr<Meter> meter_;
};

}  // namespace crumb::runtime
