// One half of a cache: the keys, or the values, of all heads, stored as floats or as codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/checked_size.h"
#include "runtime/attention/attention.h"
#include "runtime/attention/coded_rows.h"

namespace crumb::runtime {

class CachedRows {
 public:
  /// Each head's floats are stored in an order, its codes row by row.
  explicit CachedRows(RowOrder order) : order_(order) {}

  /// Forgets everything. Stores codes where they fit the depth.
  void begin(std::size_t heads, std::size_t depth, const std::optional<RowCodes>& codes);
  bool is_coded() const { return coder_.has_value(); }

  /// Returns the bytes for a capacity in positions.
  checked::Size bytes_for(std::size_t capacity) const;
  std::uint64_t bytes() const { return bytes_; }  ///< of memory
  /// Keeps the first `length` positions; for floats the capacity becomes whole blocks. Throws std::bad_alloc,
  /// and has changed nothing then. Precondition: bytes_for(capacity) is not too large.
  void move_to(std::size_t capacity, std::size_t length);
  /// Decodes all codes into floats, under the same contract.
  void uncode(std::size_t length);
  /// Copies the positions [begin, end) of every head, into memory of the scope's meter. Throws Stopped and
  /// std::bad_alloc.
  CachedRows part(std::size_t begin, std::size_t end) const;
  /// Copies the first `count` positions of `from` after the first `at`. Preconditions: there is room, and
  /// `from` is a part() of rows with the same depth and heads, in the same storage (is_coded()).
  void copy_places(const CachedRows& from, std::size_t at, std::size_t count) { copy(from, 0, at, count); }
  std::size_t capacity() const { return capacity_; }

  /// Stores a row of `depth` numbers. Returns false, and stores nothing usable there, where codes cannot
  /// represent it.
  bool put(std::size_t head, std::size_t place, const float* row);
  void get(std::size_t head, std::size_t place, float* row) const;

  /// The first `length` positions for attend(): a view of the stored floats, or decoded into memory of the
  /// scope's meter.
  struct Reading {
    HeadRows rows;
    std::shared_ptr<std::byte[]> memory;
  };
  /// Reads the heads of one sequence.
  Reading read(std::size_t heads, std::size_t length, int threads) const;

 private:
  std::size_t row_bytes() const;
  std::size_t scale_bytes() const { return coder_ ? coder_->scales() * sizeof(float) : 0; }
  void allocate(std::size_t capacity);
  void copy(const CachedRows& from, std::size_t begin, std::size_t at, std::size_t count);
  void copy_codes(const CachedRows& from, std::size_t begin, std::size_t at, std::size_t count);
  void copy_floats(const CachedRows& from, std::size_t begin, std::size_t at, std::size_t count);
  Reading decoded(std::size_t heads, std::size_t length, int threads) const;
  float* floats() const { return reinterpret_cast<float*>(rows_.get()); }
  HeadRows view() const;  ///< of the floats, as one sequence
  std::uint8_t* codes(std::size_t head, std::size_t place) const;
  float* scales(std::size_t head, std::size_t place) const;

  RowOrder order_;
  std::size_t heads_ = 0, depth_ = 0, capacity_ = 0;
  std::optional<RowCoder> coder_;
  std::vector<std::size_t> columns_;  ///< where a block has the numbers of a row
  std::shared_ptr<std::byte[]> rows_, scales_;
  std::uint64_t bytes_ = 0;
};

}  // namespace crumb::runtime
