// Keys and values of earlier positions, kept from run to run for the Attention nodes that attend over them:
// one node appends, and each reads.
//
// Keys are stored in blocks, values in strips (RowOrder): attend() reads both in place and in order, and a
// step writes its own positions alone. Keys and values that a quantizer made are stored as codes
// (coded_rows.h), which each run decodes, one layer at a time; they become floats as soon as an appended row
// is not codes. Capacity doubles when it is full. What a run appends counts once it is committed: a run that
// fails leaves the earlier positions.
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

  /// Holds at most so many positions; 0: as many as memory allows.
  explicit KeyCache(std::int64_t most_places = 0, CacheCodes codes = {})
      : most_(static_cast<std::size_t>(most_places)), codes_(codes) {}
  KeyCache(const KeyCache&) = delete;
  KeyCache& operator=(const KeyCache&) = delete;
  ~KeyCache() { uncount(); }

  std::size_t length() const { return length_; }              ///< positions that are committed
  std::size_t places() const { return length_ + appended_; }  ///< positions that are committed or appended
  const Sizes& sizes() const { return sizes_; }               ///< of the stored positions
  std::uint64_t bytes() const { return keys_.bytes() + values_.bytes(); }

  /// Counts the memory also in the meter, from now to uncount(). Throws Stopped; may be called again.
  void count(const std::shared_ptr<Meter>& meter);
  void uncount();

  /// Appends the keys and values of `rows` more positions after the committed ones. Precondition: sizes are
  /// those of the positions before, if there are any. Throws Error where they are more than the cache may
  /// hold, Stopped where the meter says so.
  void append(const Sizes& sizes, std::size_t rows, const HeadRows& keys, const HeadRows& values);
  void commit();  ///< the last append
  void forget();  ///< drops the last append

  /// Returns committed and appended positions, for attend().
  CachedRows::Reading keys(int threads) const { return keys_.read(sizes_.heads, places(), threads); }
  CachedRows::Reading values(int threads) const { return values_.read(sizes_.heads, places(), threads); }
  const char* finite() const { return finite_.data(); }

  void truncate(std::size_t length);  ///< precondition: length <= length()

  /// Positions from the end of a cache, stored as they were there.
  struct Tail {
    std::size_t places = 0;
    Sizes sizes;
    CachedRows keys{RowOrder::kBlocks}, values{RowOrder::kStrips};
    std::vector<char> finite;
  };
  /// Copies the positions after the first `length`; the cache keeps them, too. Takes memory of the scope's
  /// meter; throws Stopped and std::bad_alloc. Precondition: length <= length().
  Tail tail(std::size_t length) const;
  /// Appends a tail after the committed positions. Throws as append() does. Precondition: the committed
  /// positions are those that came before the tail.
  void put_back(const Tail& tail);

  /// Returns keys as [batch, heads, length, depth], in the type.
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
  CachedRows keys_{RowOrder::kBlocks}, values_{RowOrder::kStrips};
  std::vector<char> finite_;  ///< by [batch, heads]: whether every value so far was finite
  std::uint64_t counted_ = 0;
  std::shared_ptr<Meter> meter_;
};

}  // namespace crumb::runtime
