// Accumulators that cannot overflow: the papers' budgets, exact worst sums of integer codes, and their
// repair.
//
// A dot product adds up codes q_i times inputs x_i in a signed register of P bits (two's complement). The
// inputs are integers of N bits less their zero point, from lo to hi. Where a bound holds for every subset of
// the terms, it holds for every prefix of the sum in any order. A term that is left out counts as x_i = 0, so
// the input's range that matters is [min(lo, 0), max(hi, 0)].
//
//   A2Q    arXiv:2308.13504     A2Q+   arXiv:2401.10432
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace crumb {

/// The widest register: sums fit int64_t.
inline constexpr int kMostAccumulatorBits = 63;

/// The range of an input, its zero point subtracted. low <= high.
struct IntegerRange {
  std::int64_t low = 0, high = 0;
  bool operator==(const IntegerRange&) const = default;
  /// The range, widened to include 0: an input that is left out counts as 0.
  IntegerRange with_zero() const { return {low < 0 ? low : 0, high > 0 ? high : 0}; }
};

/// Returns the range of N bits without a zero point. 1 <= bits <= 62.
IntegerRange integer_range(int bits, bool is_signed);

// ---- Budgets: the greatest l1 norm of a row of codes. 2 <= P <= 63. ----

/// Returns the paper's own form, A2Q, eq. 15: T = (2^(P-1) - 1) * 2^(sigma - N), sigma = 1 where inputs are
/// signed. `bias` is |b_q|, a code that is added into the same register: T = (2^(P-1) - 1 - |b_q|) * 2^(sigma
/// - N), or 0 where the bias leaves nothing. Training keeps to the exact range, below.
double a2q_budget(int accumulator_bits, int input_bits, bool input_signed, double bias = 0);

/// Returns A2Q+'s budget, eq. 13, for rows whose mean is zero: T+ = (2^P - 2) / (2^N - 1), for signed and
/// unsigned inputs. With a bias T+ = 2 (2^(P-1) - 1 - |b_q|) / (2^N - 1).
double a2q_plus_budget(int accumulator_bits, int input_bits, double bias = 0);

/// The same for any range of inputs, so zero points count: A = 2^(P-1) - 1 - |b_q|, [lo, hi] widened to
/// include 0,
///   A2Q   T  = A / max(-lo, hi)      (a row may have all its mass on one sign)
///   A2Q+  T+ = 2 A / (hi - lo)       (each sign has half of the mass)
/// Both return infinity where inputs are always zero. T is tight: a row of one sign whose norm is one unit
/// more overflows. For unsigned N-bit inputs T is a little more than the paper's, which counts 2^N where the
/// greatest input is 2^N - 1. For signed ones, and for T+, both forms are the same.
double a2q_budget(int accumulator_bits, IntegerRange input, double bias = 0);
double a2q_plus_budget(int accumulator_bits, IntegerRange input, double bias = 0);

// ---- Widths from bounds ----

/// Returns the bits that `length` products of N-bit inputs and M-bit signed weights need (A2Q's data-type
/// bound, eq. 9): P >= a + log2(1 + 2^-a) + 1, a = log2 K + N + M - 1 - sigma.
int accumulator_bits_by_types(double length, int input_bits, bool signed_input, int weight_bits);

/// Returns the bits that weights need whose absolute values sum up to `norm` (A2Q's weight bound, eq. 11):
/// the same with a = log2 norm + N - sigma.
int accumulator_bits_by_norm(double norm, int input_bits, bool signed_input);

/// Returns the bits that `length` products need, of whole numbers of either sign with as many bits as these
/// magnitudes (at least 1): bits(input) + bits(weight) + ceil(log2(length)) + 1. Minifloats, in units of
/// their smallest subnormals, have 2^exponent + mantissa - 1 bits; for them it is 2^ea + ma + 2^eb + mb +
/// ceil(log2(length)) - 1 (arXiv:2311.12359, section 3).
int accumulator_bits_by_magnitudes(double length, double input, double weight);

/// Returns the bits that rows of this norm need whose positive and negative codes have equal sums:
/// ceil(log2(norm (2^N - 1) + 2)).
int accumulator_bits_by_balanced_norm(double norm, int input_bits);

// ---- Exact sums ----

/// The extremes that any partial sum of a row can reach, in any order.
struct WorstSums {
  std::int64_t max = 0;  ///< >= 0: an empty sum is one
  std::int64_t min = 0;  ///< <= 0
  bool operator==(const WorstSums&) const = default;
};

/// Returns max = hi * (sum of positive codes) + lo * (sum of negative codes), and min likewise, over [lo, hi]
/// widened to include 0. `start`, a bias, is one more term. Exact; returns nothing where a sum does not fit
/// int64_t.
std::optional<WorstSums> worst_sums(std::span<const std::int64_t> codes, IntegerRange input,
                                    std::int64_t start = 0);

/// Returns the worst sums of each tile of `tile` consecutive codes (0: the whole row); the last tile may be
/// shorter. Each tile has a register of its own, and the first register starts with `start`.
std::optional<std::vector<WorstSums>> worst_sums_of_tiles(std::span<const std::int64_t> codes,
                                                          std::size_t tile, IntegerRange input,
                                                          std::int64_t start = 0);

/// Returns the least P >= 1 with -2^(P-1) <= min and max <= 2^(P-1) - 1.
int accumulator_bits(const WorstSums& sums);

/// Whether a register of so many bits holds these sums.
inline bool fits(const WorstSums& sums, int bits) { return accumulator_bits(sums) <= bits; }

/// Returns the width of the register that adds up the results of tiles of P bits: P + ceil(log2(ceil(length /
/// tile))) (arXiv:2409.17092). P where there is one tile.
int outer_accumulator_bits(int bits, std::size_t length, std::size_t tile);

// ---- Repair ----

/// Moves codes toward zero, one unit at a time, until the row's worst sums (`start` included) fit `bits`. Of
/// the steps that help, each is the one that adds least to the squared distance from `latent` (weights over
/// scale, as many as codes; empty: the codes themselves); ties go to the lower index. Returns the number of
/// steps: 0 where the row fits already, and then no code changes.
///
/// Throws Error where `start` alone does not fit, and where a sum does not fit int64_t.
std::int64_t repair_row(std::span<std::int64_t> codes, std::span<const double> latent, IntegerRange input,
                        int bits, std::int64_t start = 0);

/// The same for each tile.
std::int64_t repair_tiles(std::span<std::int64_t> codes, std::span<const double> latent, std::size_t tile,
                          IntegerRange input, int bits, std::int64_t start = 0);

}  // namespace crumb
