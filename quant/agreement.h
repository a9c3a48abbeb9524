// Whether two models answer alike: the agreement of two sets of outputs, one row per input (sentence
// embeddings, say).
//
//   cosine    sum a b / sqrt(sum a^2 sum b^2) in double. Two rows of zeros agree (1); a row of zeros and
//             another one do not (0)
//   spearman  the rank correlation of all rows * (rows - 1) / 2 pairwise cosines within a and within b: do
//             the two find the same pairs similar? Pearson's correlation of the ranks, equal values sharing
//             their average rank. NaN where undefined: fewer than three rows, or one side's cosines all equal
//
// Takes up to 40 bytes per pair of rows.
#pragma once

#include <cstdint>
#include <span>

namespace crumb {

struct Agreement {
  uint64_t rows = 0;
  uint64_t width = 0;
  double mean_cosine = 0;   ///< row by row; NaN for no rows
  double least_cosine = 0;  ///< likewise
  double spearman = 0;
};

/// Returns the agreement of two row-major matrices [rows, width]. Throws Error when a size is not rows *
/// width (with a width of at least 1 where there are rows) or when a value is inf or NaN (naming the side and
/// the row). threads: 0 for those the machine has; never changes the result.
Agreement agreement(std::span<const float> a, std::span<const float> b, uint64_t rows, uint64_t width,
                    int threads = 0);

/// The cosine of two vectors of equal length: their dot product over the root of their squared lengths,
/// within [-1, 1]. Of vectors of zeros 1 where both are, else 0.
double cosine(std::span<const float> a, std::span<const float> b);

/// Returns Spearman's rank correlation of two lists of equal length, without NaN; NaN where it is undefined.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace crumb
