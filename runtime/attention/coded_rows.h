// Rows of numbers stored as codes and scales.
//
// Accepts rows of which each group of numbers is codes of one format times one float32 scale, as a quantizer
// makes them with the scale of the group's largest magnitude: encode() finds the scale again from that
// magnitude and compares every number, so that decode() returns the same row, except for the sign of zeros.
// Codes are stored in 2, 4 or 8 bits each, those of a row side by side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/checked_size.h"
#include "runtime/attention/cache_codes.h"

namespace crumb::runtime {

/// Holds a format's values in order, to find the nearest.
class RowCoder {
 public:
  /// For rows of `depth` numbers. Precondition: the group divides the depth, or is 0.
  RowCoder(const RowCodes& codes, std::size_t depth);

  std::size_t code_bytes() const { return code_bytes_; }  ///< of a row
  std::size_t scales() const { return depth_ / group_; }  ///< of a row
  /// Returns false where the row cannot be stored; codes and scales are then undefined.
  bool encode(const float* row, std::uint8_t* codes, float* scales) const;
  /// Writes number c of the row to out[c * step].
  void decode(const std::uint8_t* codes, const float* scales, float* out, std::size_t step) const;

 private:
  struct Value {
    float value;
    std::uint8_t bits;
  };
  bool encode_group(const float* row, float scale, std::uint8_t* codes, std::size_t first) const;
  std::uint8_t nearest(float x) const;

  std::size_t depth_, group_, bits_, code_bytes_;
  float greatest_;
  std::array<float, 256> table_;  ///< the value of each bit pattern
  std::vector<Value> values_;     ///< ascending
};

}  // namespace crumb::runtime
