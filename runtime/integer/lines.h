// Codes of integer sums by a line, where thresholds are evenly spread, or by a few lines, where the chain
// bends.
//
// A code is the number of thresholds that a sum reaches (lower/chain.h). After an affine chain thresholds are
// evenly spread except for rounding, so that number is round(sum * slope + offset) between a least and a
// most, in float64. Both are step functions that never fall, so they agree for every sum if they agree at
// each threshold and at the sum below it: line_of() checks that, with the operations of codes_by_lines(). Its
// result is proven, not fitted. Behind a chain with bends (LeakyRelu) each stretch of thresholds has a line,
// which counts the thresholds of its stretch whatever the sum; the code is the sum of these counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace crumb::runtime::integer {

/// Thresholds that no sum reaches, and that every sum reaches.
inline constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int32_t kAlways = std::numeric_limits<std::int32_t>::min();

/// reached = the nearest integer to clamp(sum * slope + offset, least, most). It is computed as (v + magic) -
/// magic, whose ties go to an even integer or, with an odd magic number, to an odd one.
struct Line {
  double slope = 0, offset = 0;
  double least = 0, most = 0;
  double magic = kEven;

  static constexpr double kEven = 0x1.8p52, kOdd = kEven + 1;

  std::int32_t reached(std::int32_t sum) const;
};

/// The line that gives the number of `thresholds` that each sum reaches. They ascend, kAlways first, kNever
/// last. Returns nothing where no line does, as where the chain has a bend.
std::optional<Line> line_of(std::span<const std::int32_t> thresholds);

/// The most lines that are added up: more would cost what a search costs.
inline constexpr std::size_t kMostPieces = 4;

/// Lines whose counts add up to the number of `thresholds` that each sum reaches, as few as there are: each
/// but the last has the longest stretch that a line gives. Empty where they would be more than kMostPieces.
std::vector<Line> lines_of(std::span<const std::int32_t> thresholds);

/// The numbers of several lines, an array for each number; for one channel or for all. Of the lines that are
/// added up for a channel, each has its numbers `piece_stride` numbers behind those of the one before.
struct Lines {
  const double* slopes = nullptr;
  const double* offsets = nullptr;
  const double* least = nullptr;
  const double* most = nullptr;
  const double* magics = nullptr;
  std::size_t pieces = 1;  ///< 1 to kMostPieces
  std::size_t piece_stride = 0;

  Line at(std::size_t i) const { return {slopes[i], offsets[i], least[i], most[i], magics[i]}; }
  Lines from(std::size_t i) const {
    return {slopes + i, offsets + i, least + i, most + i, magics + i, pieces, piece_stride};
  }
};

/// Whether sum i goes through line 0 (kOne) or line i (kEach).
enum class Channels : std::uint8_t { kOne, kEach };

/// codes[i] = the low eight bits of low + reached, added up over the pieces.
void codes_by_lines(Channels channels, const Lines& lines, std::int32_t low, const std::int32_t* sums,
                    std::size_t count, std::uint8_t* codes);
/// values[i] = float32(sum * factor + shift), in float64.
void floats_of(Channels channels, const double* factors, const double* shifts, const std::int32_t* sums,
               std::size_t count, float* values);

/// reached[i], which is 0, becomes the number of the ascending thresholds, at least one, that sum i reaches.
void count_thresholds(std::span<const std::int32_t> thresholds, const std::int32_t* sums, std::size_t count,
                      std::int32_t* reached);

/// The variants that the three above choose from: for any processor, AVX2 and AVX-512. Precondition:
/// may_use() the set.
void codes_by_lines_portable(Channels channels, const Lines& lines, std::int32_t low,
                             const std::int32_t* sums, std::size_t count, std::uint8_t* codes);
void floats_of_portable(Channels channels, const double* factors, const double* shifts,
                        const std::int32_t* sums, std::size_t count, float* values);
void count_thresholds_portable(std::span<const std::int32_t> thresholds, const std::int32_t* sums,
                               std::size_t count, std::int32_t* reached);
void codes_by_lines_avx2(Channels channels, const Lines& lines, std::int32_t low, const std::int32_t* sums,
                         std::size_t count, std::uint8_t* codes);
void floats_of_avx2(Channels channels, const double* factors, const double* shifts, const std::int32_t* sums,
                    std::size_t count, float* values);
void count_thresholds_avx2(std::span<const std::int32_t> thresholds, const std::int32_t* sums,
                           std::size_t count, std::int32_t* reached);
void codes_by_lines_avx512(Channels channels, const Lines& lines, std::int32_t low, const std::int32_t* sums,
                           std::size_t count, std::uint8_t* codes);
void floats_of_avx512(Channels channels, const double* factors, const double* shifts,
                      const std::int32_t* sums, std::size_t count, float* values);
void count_thresholds_avx512(std::span<const std::int32_t> thresholds, const std::int32_t* sums,
                             std::size_t count, std::int32_t* reached);

}  // namespace crumb::runtime::integer
