// Weights and codes as byte_products.h takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace crumb::runtime::integer {

/// Weights in rows of a multiple of kGroup, filled up with zeros; nothing where one does not fit a byte.
std::optional<std::vector<std::int8_t>> byte_rows(std::span<const std::int16_t> weights, std::size_t rows);

/// Rows as vectors whose columns they are, with zeros for missing columns; and vectors as rows.
std::vector<std::int8_t> vectors_of_rows(std::span<const std::int8_t> rows, std::size_t groups);
std::vector<std::int8_t> rows_of_vectors(std::span<const std::int8_t> vectors, std::size_t groups);

/// Codes less an offset, so that none is negative.
struct Bytes {
  int offset = 0;
  int most = 255;  ///< the greatest code minus the offset
};

/// For codes in [least, most].
Bytes bytes_of(int least, int most);
/// The same where padding, which is the zero point, is among the codes. Returns nothing where a byte does not
/// hold both.
std::optional<Bytes> bytes_of(int least, int most, int zero);

/// The start of the sums of each row of weights, so that they come out as sums of (code - zero) * weight:
/// minus the sum of the weights times (zero - offset), modulo 2^32. `count`: the number of starts; zeros
/// follow those of the rows.
std::vector<std::int32_t> starts_of(std::span<const std::int8_t> rows, std::size_t groups,
                                    int zero_less_offset, std::size_t count);

}  // namespace crumb::runtime::integer
