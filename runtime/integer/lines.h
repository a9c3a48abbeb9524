// Codes of integer sums by a line, where thresholds lie on one.
//
// A code is the number of thresholds that a sum reaches (lower/chain.h). Behind an affine chain thresholds
// are evenly spread, so that number is round(sum * slope + offset) between a least and a most, in float64,
// but for what rounding does. Both are step functions that never fall, so they agree for every sum if they
// agree at each threshold and at the sum below it: that is what line_of() checks, with the operations that
// codes_by_lines() has. What it gives is proven, not fitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace crumb::runtime::integer {

/// Thresholds that no sum reaches, that every sum reaches.
inline constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int32_t kAlways = std::numeric_limits<std::int32_t>::min();

/// reached = the nearest integer to clamp(sum * slope + offset, least, most): what (v + magic) - magic is,
/// whose ties go to an even or, with an odd magic number, to an odd one.
struct Line {
  double slope = 0, offset = 0;
  double least = 0, most = 0;
  double magic = kEven;

  static constexpr double kEven = 0x1.8p52, kOdd = kEven + 1;

  std::int32_t reached(std::int32_t sum) const;
};

/// The line that gives the number of thresholds that each sum reaches, of `thresholds` in ascending order:
/// kAlways first, kNever last. Nothing where there is none, as where the chain has a bend.
std::optional<Line> line_of(std::span<const std::int32_t> thresholds);

/// The same numbers of every Line, one array for each, of one channel or of all.
struct Lines {
  const double* slopes = nullptr;
  const double* offsets = nullptr;
  const double* least = nullptr;
  const double* most = nullptr;
  const double* magics = nullptr;

  Line at(std::size_t i) const { return {slopes[i], offsets[i], least[i], most[i], magics[i]}; }
  Lines from(std::size_t i) const { return {slopes + i, offsets + i, least + i, most + i, magics + i}; }
};

/// What becomes of sum i by line 0 (kOne) or line i (kEach).
enum class Channels : std::uint8_t { kOne, kEach };

/// codes[i] = the low eight bits of low + reached.
void codes_by_lines(Channels channels, const Lines& lines, std::int32_t low, const std::int32_t* sums,
                    std::size_t count, std::uint8_t* codes);
/// values[i] = float32(sum * factor + shift), in float64.
void floats_of(Channels channels, const double* factors, const double* shifts, const std::int32_t* sums,
               std::size_t count, float* values);

/// On any processor, with AVX2 and with AVX-512: those that the two above choose from. Precondition:
/// may_use() the set.
void codes_by_lines_portable(Channels channels, const Lines& lines, std::int32_t low,
                             const std::int32_t* sums, std::size_t count, std::uint8_t* codes);
void floats_of_portable(Channels channels, const double* factors, const double* shifts,
                        const std::int32_t* sums, std::size_t count, float* values);
void codes_by_lines_avx2(Channels channels, const Lines& lines, std::int32_t low, const std::int32_t* sums,
                         std::size_t count, std::uint8_t* codes);
void floats_of_avx2(Channels channels, const double* factors, const double* shifts, const std::int32_t* sums,
                    std::size_t count, float* values);
void codes_by_lines_avx512(Channels channels, const Lines& lines, std::int32_t low, const std::int32_t* sums,
                           std::size_t count, std::uint8_t* codes);
void floats_of_avx512(Channels channels, const double* factors, const double* shifts,
                      const std::int32_t* sums, std::size_t count, float* values);

}  // namespace crumb::runtime::integer
