#include "runtime/integer/byte_weights.h"

#include <algorithm>

#include "runtime/integer/byte_products.h"

namespace crumb::runtime::integer {

std::optional<std::vector<std::int8_t>> byte_rows(std::span<const std::int16_t> weights, std::size_t rows) {
  const auto fits = [](std::int16_t w) { return w >= -128 && w <= 127; };
  if (!std::ranges::all_of(weights, fits)) return std::nullopt;
  const std::size_t terms = weights.size() / std::max<std::size_t>(rows, 1);
  const std::size_t width = groups_of(terms) * kGroup;
  std::vector<std::int8_t> made(rows * width, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < terms; ++k)
      made[r * width + k] = static_cast<std::int8_t>(weights[r * terms + k]);
  }
  return made;
}

std::vector<std::int8_t> vectors_of_rows(std::span<const std::int8_t> rows, std::size_t groups) {
  const std::size_t width = groups * kGroup, count = width == 0 ? 0 : rows.size() / width;
  std::vector<std::int8_t> made(vectors_of(count) * groups * kVectorBytes, 0);
  for (std::size_t r = 0; r < count; ++r) {
    const std::size_t first = r / kLanes * groups * kVectorBytes + r % kLanes * kGroup;
    for (std::size_t g = 0; g < groups; ++g)
      std::copy_n(rows.data() + r * width + g * kGroup, kGroup, made.data() + first + g * kVectorBytes);
  }
  return made;
}

std::vector<std::int8_t> rows_of_vectors(std::span<const std::int8_t> vectors, std::size_t groups) {
  const std::size_t width = groups * kGroup, size = groups * kVectorBytes;
  const std::size_t count = size == 0 ? 0 : vectors.size() / size * kLanes;
  std::vector<std::int8_t> made(count * width, 0);
  for (std::size_t r = 0; r < count; ++r) {
    const std::size_t first = r / kLanes * size + r % kLanes * kGroup;
    for (std::size_t g = 0; g < groups; ++g)
      std::copy_n(vectors.data() + first + g * kVectorBytes, kGroup, made.data() + r * width + g * kGroup);
  }
  return made;
}

Bytes bytes_of(int least, int most) { return {least, most - least}; }

std::optional<Bytes> bytes_of(int least, int most, int zero) {
  const Bytes bytes = bytes_of(std::min(least, zero), std::max(most, zero));
  return bytes.most <= 255 ? std::optional(bytes) : std::nullopt;
}

std::vector<std::int32_t> starts_of(std::span<const std::int8_t> rows, std::size_t groups,
                                    int zero_less_offset, std::size_t count) {
  std::vector<std::int32_t> starts(count, 0);
  const std::size_t width = groups * kGroup;
  for (std::size_t r = 0; r < count && (r + 1) * width <= rows.size(); ++r) {
    std::int64_t sum = 0;
    for (const std::int8_t w : rows.subspan(r * width, width)) sum += w;
    starts[r] = static_cast<std::int32_t>(static_cast<std::uint32_t>(-sum * zero_less_offset));
  }
  return starts;
}

}  // namespace crumb::runtime::integer
