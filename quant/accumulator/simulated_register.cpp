#include "quant/accumulator/simulated_register.h"

#include <string>

#include "base/error.h"
#include "quant/accumulator/accumulator.h"

namespace crumb {

SimulatedRegister::SimulatedRegister(int bits, OverflowMode mode) : bits_(bits), mode_(mode) {
  if (bits < 2 || bits > kMostAccumulatorBits) {
    throw usage_error("an accumulator of " + std::to_string(bits) + " bits: expected 2 to " +
                      std::to_string(kMostAccumulatorBits));
  }
  high_ = (std::int64_t{1} << (bits - 1)) - 1;
  low_ = -high_ - 1;
}

std::int64_t SimulatedRegister::sum(std::int64_t start, std::span<const std::int64_t> codes,
                                    std::span<const std::int64_t> inputs, Overflows& overflows) const {
  std::int64_t sum = add(0, start, 0, overflows);
  for (std::size_t i = 0; i < codes.size(); ++i) sum = add(sum, codes[i] * inputs[i], i + 1, overflows);
  return sum;
}

std::int64_t SimulatedRegister::overflowed(std::int64_t sum, std::size_t terms, Overflows& overflows) const {
  if (overflows.count++ == 0) overflows.first = {sum, terms};
  switch (mode_) {
    case OverflowMode::kCheck: break;
    case OverflowMode::kSaturate: return sum < low_ ? low_ : high_;
    case OverflowMode::kWrap: {
      const int above = 64 - bits_;  // shifted up without a sign, and back with it
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) << above) >> above;
    }
  }
  return sum;
}

}  // namespace crumb
