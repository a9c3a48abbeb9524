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

graph::Tensor integers(graph::ElementType type, std::vector<std::int64_t> shape,
                       std::span<const std::int64_t> values) {
  const unsigned bits = info(type).bits;
  const auto count = graph::packed_bytes(type, static_cast<std::int64_t>(values.size())).take();
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto code = static_cast<std::uint64_t>(values[i]);
    if (bits >= 8) {
      for (unsigned b = 0; b < bits / 8; ++b) {
        bytes[i * (bits / 8) + b] = static_cast<std::byte>((code >> (8 * b)) & 0xFF);
      }
    } else {
      const std::size_t bit = i * bits;
      bytes[bit / 8] |= static_cast<std::byte>((code & ((1u << bits) - 1)) << (bit % 8));
    }
  }
  return {type, std::move(shape), std::move(bytes)};
}

}  // namespace crumb::exporting
