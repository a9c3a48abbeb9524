// The quantizer behind a layer as a step function of each channel's sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/lower/chain.h"
#include "runtime/lower/weights.h"

namespace crumb::runtime {

/// Thresholds of each channel, and the lines that stand for them (integer/lines.h).
struct StepFunctions {
  std::vector<std::int32_t> thresholds;  ///< [channels, steps]
  std::vector<double> lines;  ///< [5, channels]: slope, offset, least, most, magic; zeros where there is none

  bool all_lines() const { return std::ranges::all_of(magics(), is_line); }
  bool any_lines() const { return std::ranges::any_of(magics(), is_line); }

 private:
  std::span<const double> magics() const { return std::span(lines).last(lines.size() / 5); }
  static bool is_line(double magic) { return magic != 0; }
};

/// Of sums in [least, most], one of each channel. Where values fall as sums rise, the channel's weights
/// change their signs, and with them the bounds of its sums.
StepFunctions step_functions(const Chain& chain, const UniformQuantizer& quantizer, IntegerWeight& w,
                             std::vector<std::int32_t>& least, std::vector<std::int32_t>& most);

}  // namespace crumb::runtime
