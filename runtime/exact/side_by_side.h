// Rows of 32-bit numbers as columns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crumb::runtime::exact {

/// Writes element i of row r to out[16 i + r], for i < count and sixteen rows that begin `stride` elements
/// apart; rows from `rows` on have what the last one has. Precondition: 1 <= rows <= 16.
void side_by_side(const std::uint32_t* from, std::size_t stride, std::size_t rows, std::size_t count,
                  std::uint32_t* out);

/// By the definition; kept for ever.
void side_by_side_ref(const std::uint32_t* from, std::size_t stride, std::size_t rows, std::size_t count,
                      std::uint32_t* out);
/// Precondition: may_use(Isa::kAvx2).
void side_by_side_avx2(const std::uint32_t* from, std::size_t stride, std::size_t rows, std::size_t count,
                       std::uint32_t* out);

}  // namespace crumb::runtime::exact
