// What a recipe says of widths that training finds: how much all weights together may cost, and the least and
// most bits of each weight.
//
// As text: BUDGET[:least=N][:most=N], as in 3.5bpw, 12kB or 0.4Mbops:least=3; none takes the budget back. In
// YAML also as a map: {budget: 3.5bpw, least: 2, most: 6}.
//
//   3.5bpw     the mean width of all quantized weights
//   12kB       bytes of their packed codes
//   0.4Mbops   bit operations of one sample (kbops, Mbops and Gbops are 10^3, 10^6 and 10^9 of them)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace crumb {

struct BitBudget {
  static constexpr int kFewestBits = 2, kMostBits = 8;

  // Exactly one of the three is not 0.
  double bits_per_weight = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bops = 0;

  int least = kFewestBits, most = kMostBits;  ///< of each weight whose width is learned
  bool operator==(const BitBudget&) const = default;
};

/// Returns a budget, or nothing where the text is "none". Throws Error(kUsage).
std::optional<BitBudget> parse_learned_bits(std::string_view text);

/// Parse the parts of a budget. Throw Error(kUsage).
BitBudget parse_bit_budget(std::string_view text);  ///< without limits
int parse_learned_width(std::string_view text);

/// Returns "3.5bpw", "12kB" or "400000bops", without limits.
std::string budget_text(const BitBudget& budget);

/// Returns text such as "3.5bpw", "12kB:least=3:most=6", "none".
std::string to_string(const std::optional<BitBudget>& budget);

}  // namespace crumb
