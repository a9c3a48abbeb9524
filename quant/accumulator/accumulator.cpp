#include "quant/accumulator/accumulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <string>

#include "base/error.h"

namespace crumb {
namespace {

/// Returns the least P with 2^(P-1) - 1 >= largest, a whole number.
int signed_bits(double largest) {
  int bits = 1;
  while (std::ldexp(1.0, bits - 1) <= largest) ++bits;
  return bits;
}

/// Returns 2^(P-1) - 1 - |b_q|, at least 0.
double largest_sum(int accumulator_bits, double bias) {
  return std::max(0.0, std::ldexp(1.0, accumulator_bits - 1) - 1 - std::fabs(bias));
}

/// sum += a * b; returns false where that does not fit.
bool add_product(std::int64_t& sum, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(sum, product, &sum);
}

/// By how much a step of a positive (or negative) code toward zero lowers the maximum and raises the minimum.
struct Relief {
  std::int64_t of_max = 0, of_min = 0;
};

/// A step that a code can take.
struct Step {
  double damage = 0;
  std::size_t at = 0;
  bool operator>(const Step& other) const {
    return damage != other.damage ? damage > other.damage : at > other.at;
  }
};
using Steps = std::priority_queue<Step, std::vector<Step>, std::greater<>>;

/// Moves the codes of one row until they are within the budget.
class RowRepair {
 public:
  RowRepair(std::span<std::int64_t> codes, std::span<const double> latent, IntegerRange input, WorstSums sums)
      : codes_(codes), latent_(latent), sums_(sums), original_(codes.begin(), codes.end()) {
    const IntegerRange x = input.with_zero();
    relief_[0] = {.of_max = x.high, .of_min = -x.low};
    relief_[1] = {.of_max = -x.low, .of_min = x.high};
    for (std::size_t i = 0; i < codes.size(); ++i) push(i);
  }

  /// Precondition: a row of zeros fits.
  std::int64_t run(int bits) {
    const std::int64_t most = (std::int64_t{1} << (bits - 1)) - 1, least = -most - 1;
    std::int64_t taken = 0;
    while (sums_.max > most || sums_.min < least) {
      Steps* best = nullptr;
      for (const std::size_t sign : {0u, 1u}) {
        const bool helps =
            (sums_.max > most && relief_[sign].of_max > 0) || (sums_.min < least && relief_[sign].of_min > 0);
        Steps& steps = steps_[sign];
        if (helps && !steps.empty() && (!best || best->top() > steps.top())) best = &steps;
      }
      const std::size_t at = best->top().at;
      best->pop();
      take(at);
      ++taken;
    }
    return taken;
  }

 private:
  static std::size_t sign_of(std::int64_t code) { return code > 0 ? 0 : 1; }

  /// (q - sign - w)^2 - (q - w)^2 = 1 - 2 sign (q - w).
  void push(std::size_t i) {
    const std::int64_t code = codes_[i];
    if (code == 0) return;
    const double wanted = latent_.empty() ? static_cast<double>(original_[i]) : latent_[i];
    const double away = static_cast<double>(code) - wanted;
    steps_[sign_of(code)].push({.damage = 1 - 2 * (code > 0 ? away : -away), .at = i});
  }

  void take(std::size_t i) {
    const std::size_t sign = sign_of(codes_[i]);
    sums_.max -= relief_[sign].of_max;
    sums_.min += relief_[sign].of_min;
    codes_[i] += codes_[i] > 0 ? -1 : 1;
    push(i);
  }

  std::span<std::int64_t> codes_;
  std::span<const double> latent_;
  WorstSums sums_;
  std::vector<std::int64_t> original_;
  Relief relief_[2];  ///< of positive and of negative codes
  Steps steps_[2];
};

}  // namespace

IntegerRange integer_range(int bits, bool is_signed) {
  if (!is_signed) return {0, (std::int64_t{1} << bits) - 1};
  const std::int64_t half = std::int64_t{1} << (bits - 1);
  return {-half, half - 1};
}

double a2q_budget(int accumulator_bits, int input_bits, bool input_signed, double bias) {
  return std::ldexp(largest_sum(accumulator_bits, bias), (input_signed ? 1 : 0) - input_bits);
}

double a2q_plus_budget(int accumulator_bits, int input_bits, double bias) {
  return 2 * largest_sum(accumulator_bits, bias) / (std::ldexp(1.0, input_bits) - 1);
}

double a2q_budget(int accumulator_bits, IntegerRange input, double bias) {
  const IntegerRange x = input.with_zero();
  const double most = std::max(-static_cast<double>(x.low), static_cast<double>(x.high));
  return most > 0 ? largest_sum(accumulator_bits, bias) / most : std::numeric_limits<double>::infinity();
}

double a2q_plus_budget(int accumulator_bits, IntegerRange input, double bias) {
  const IntegerRange x = input.with_zero();
  const double width = static_cast<double>(x.high) - static_cast<double>(x.low);
  return width > 0 ? 2 * largest_sum(accumulator_bits, bias) / width
                   : std::numeric_limits<double>::infinity();
}

int accumulator_bits_by_types(double length, int input_bits, bool signed_input, int weight_bits) {
  return signed_bits(std::ldexp(length, input_bits + weight_bits - 1 - (signed_input ? 1 : 0)));
}

int accumulator_bits_by_norm(double norm, int input_bits, bool signed_input) {
  return signed_bits(std::ldexp(norm, input_bits - (signed_input ? 1 : 0)));
}

int accumulator_bits_by_magnitudes(double length, double input, double weight) {
  int more = 0;  // ceil(log2(length))
  while (std::ldexp(1.0, more) < length) ++more;
  return std::ilogb(input) + 1 + std::ilogb(weight) + 1 + more + 1;
}

int accumulator_bits_by_balanced_norm(double norm, int input_bits) {
  const double states = norm * (std::ldexp(1.0, input_bits) - 1) + 2;
  int bits = 1;
  while (std::ldexp(1.0, bits) < states) ++bits;
  return bits;
}

std::optional<WorstSums> worst_sums(std::span<const std::int64_t> codes, IntegerRange input,
                                    std::int64_t start) {
  const IntegerRange x = input.with_zero();
  WorstSums sums{.max = std::max<std::int64_t>(start, 0), .min = std::min<std::int64_t>(start, 0)};
  for (const std::int64_t code : codes) {
    const bool fit = add_product(sums.max, code, code > 0 ? x.high : x.low) &&
                     add_product(sums.min, code, code > 0 ? x.low : x.high);
    if (!fit) return {};
  }
  return sums;
}

std::optional<std::vector<WorstSums>> worst_sums_of_tiles(std::span<const std::int64_t> codes,
                                                          std::size_t tile, IntegerRange input,
                                                          std::int64_t start) {
  std::vector<WorstSums> all;
  if (tile == 0) tile = std::max<std::size_t>(codes.size(), 1);
  for (std::size_t first = 0; first == 0 || first < codes.size(); first += tile) {
    const auto sums =
        worst_sums(codes.subspan(first, std::min(tile, codes.size() - first)), input, first == 0 ? start : 0);
    if (!sums) return {};
    all.push_back(*sums);
  }
  return all;
}

int accumulator_bits(const WorstSums& sums) {
  // -2^(P-1) <= min is ~min < 2^(P-1).
  const auto largest = static_cast<std::uint64_t>(std::max(sums.max, sums.min < 0 ? ~sums.min : 0));
  int bits = 1;
  while (bits < 64 && largest >> (bits - 1) != 0) ++bits;
  return bits;
}

int outer_accumulator_bits(int bits, std::size_t length, std::size_t tile) {
  if (tile == 0 || length <= tile) return bits;
  const std::size_t tiles = (length + tile - 1) / tile;
  int more = 0;
  while (std::size_t{1} << more < tiles) ++more;
  return bits + more;
}

std::int64_t repair_row(std::span<std::int64_t> codes, std::span<const double> latent, IntegerRange input,
                        int bits, std::int64_t start) {
  const auto sums = worst_sums(codes, input, start);
  if (!sums)
    throw Error("the worst sums of a row of " + std::to_string(codes.size()) + " codes pass 64 bits");
  if (fits(*sums, bits)) return 0;
  if (!fits({.max = std::max<std::int64_t>(start, 0), .min = std::min<std::int64_t>(start, 0)}, bits)) {
    throw Error("a bias of " + std::to_string(start) + " units does not fit an accumulator of " +
                std::to_string(bits) + " bits; add bits, or add the bias behind the accumulator");
  }
  return RowRepair(codes, latent, input, *sums).run(bits);
}

std::int64_t repair_tiles(std::span<std::int64_t> codes, std::span<const double> latent, std::size_t tile,
                          IntegerRange input, int bits, std::int64_t start) {
  if (tile == 0) return repair_row(codes, latent, input, bits, start);
  std::int64_t taken = 0;
  for (std::size_t first = 0; first < codes.size(); first += tile) {
    const std::size_t count = std::min(tile, codes.size() - first);
    taken += repair_row(codes.subspan(first, count), latent.empty() ? latent : latent.subspan(first, count),
                        input, bits, first == 0 ? start : 0);
  }
  return taken;
}

}  // namespace crumb
