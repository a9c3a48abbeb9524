// The integers that a quantizer's output is limited to, as a width and as bounds. Internal to export/qcdq.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace crumb::exporting {

struct IntegerBounds {
  std::int64_t low = 0, high = 0;

  bool contains(const IntegerBounds& other) const { return other.low >= low && other.high <= high; }
  bool operator==(const IntegerBounds&) const = default;
};

/// "[-8, 7]".
std::string text_of(const IntegerBounds& bounds);

/// A whole width; at most 32 bits.
struct IntegerRange {
  int bits = 8;
  bool is_signed = true;
  bool narrow = false;

  IntegerBounds bounds() const;  ///< of one signed bit: -1 and 1
  bool operator==(const IntegerRange&) const = default;
};

/// The range of at most 32 bits with exactly these bounds; nothing where there is none.
std::optional<IntegerRange> range_of(const IntegerBounds& bounds);

/// All that an integer type holds.
IntegerBounds bounds_of(graph::ElementType type);

}  // namespace crumb::exporting
