// Loops over bytes of images that convolutions need in addition to products.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crumb::runtime::integer {

inline constexpr std::size_t kMostVectors = 4;  ///< that are made at a time

/// Bytes of four rows, 16 * vectors of each, to vectors of sixteen columns (byte_products.h): vector v goes
/// to to + v * step. Precondition: vectors <= kMostVectors.
void interleave(const std::uint8_t* const rows[4], std::size_t vectors, std::uint8_t* to, std::size_t step);

/// Sums that slide() may write, and bytes that it may read, behind those that it is asked for.
inline constexpr std::size_t kSlack = 7;

/// One channel under a window of `terms` weights.
struct Slide {
  const std::uint8_t* x = nullptr;
  const std::size_t* offsets = nullptr;  ///< of the window's terms
  const std::int8_t* weights = nullptr;
  std::size_t terms = 0;
  std::int32_t start = 0;
};

/// sums[i] = start + the sum over t of weights[t] * x[offsets[t] + i], for i < count, and whatever it likes
/// for kSlack more.
void slide(const Slide& window, std::int32_t* sums, std::size_t count);

/// Those that the two choose from. Preconditions: may_use(Isa::kAvx512) and four vectors;
/// may_use(Isa::kAvx2).
void interleave_portable(const std::uint8_t* const rows[4], std::size_t vectors, std::uint8_t* to,
                         std::size_t step);
void interleave_avx512(const std::uint8_t* const rows[4], std::uint8_t* to, std::size_t step);
void slide_portable(const Slide& window, std::int32_t* sums, std::size_t count);
void slide_avx2(const Slide& window, std::int32_t* sums, std::size_t count);

}  // namespace crumb::runtime::integer
