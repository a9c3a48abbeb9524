#include "export/qcdq/integer_range.h"

namespace crumb::exporting {

std::string text_of(const IntegerBounds& bounds) {
  return "[" + std::to_string(bounds.low) + ", " + std::to_string(bounds.high) + "]";
}

IntegerBounds IntegerRange::bounds() const {
  const std::int64_t half = std::int64_t{1} << (bits - 1);
  if (!is_signed) return {0, 2 * half - (narrow ? 2 : 1)};
  if (bits == 1) return {-1, 1};
  return {narrow ? 1 - half : -half, half - 1};
}

std::optional<IntegerRange> range_of(const IntegerBounds& bounds) {
  for (int bits = 1; bits <= 32; ++bits) {
    for (const bool is_signed : {false, true}) {
      for (const bool narrow : {false, true}) {
        const IntegerRange range{bits, is_signed, narrow};
        if (bits == 1 && (is_signed || narrow)) continue;  // -1 and 1 are no range; 0 alone is no width
        if (range.bounds() == bounds) return range;
      }
    }
  }
  return {};
}

IntegerBounds bounds_of(graph::ElementType type) {
  const unsigned bits = info(type).bits;
  if (bits >= 64) return {INT64_MIN, INT64_MAX};
  const std::int64_t half = std::int64_t{1} << (bits - 1);
  if (info(type).kind == graph::ElementKind::kSigned) return {-half, half - 1};
  return {0, 2 * half - 1};
}

}  // namespace crumb::exporting
