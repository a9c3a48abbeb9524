// Rows to columns of what lies behind each other: the phases of a strided result to the result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crumb::runtime {

/// to[i * rows + r] = from[r * apart + i], for r < rows, i < count.
void interleave(const std::uint32_t* from, std::size_t apart, std::size_t rows, std::size_t count,
                std::uint32_t* to);
void interleave(const std::uint16_t* from, std::size_t apart, std::size_t rows, std::size_t count,
                std::uint16_t* to);
void interleave(const std::uint8_t* from, std::size_t apart, std::size_t rows, std::size_t count,
                std::uint8_t* to);
inline void interleave(const float* from, std::size_t apart, std::size_t rows, std::size_t count, float* to) {
  interleave(reinterpret_cast<const std::uint32_t*>(from), apart, rows, count,
             reinterpret_cast<std::uint32_t*>(to));
}

}  // namespace crumb::runtime
