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

/// Such rows as vectors, whose columns they are; columns that are missing are zeros. And back.
std::vector<std::int8_t> vectors_of_rows(std::span<const std::int8_t> rows, std::size_t groups);
std::vector<std::int8_t> rows_of_vectors(std::span<const std::int8_t> vectors, std::size_t groups);

/// Codes less an offset, so that none is negative.
struct Bytes {
  int offset = 0;
  int most = 255;  ///< the greatest that they are then
};

/// Of codes in [least, most].
Bytes bytes_of(int least, int most);
/// The same where padding is among them, which is the zero point; nothing where a byte does not hold both.
std::optional<Bytes> bytes_of(int least, int most, int zero);

/// What the sums of each row of weights begin with, so that they come out as those of (code - zero) * weight:
/// less the weights' sum times (zero - offset), modulo 2^32. `count`: of starts, zeros behind those of the
/// rows.
std::vector<std::int32_t> starts_of(std::span<const std::int8_t> rows, std::size_t groups,
                                    int zero_less_offset, std::size_t count);

}  // namespace crumb::runtime::integer
