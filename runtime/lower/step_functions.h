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
  /// [5, channels]: slope, offset, least, most, magic; zeros for channels without a line.
  std::vector<double> lines;

  bool all_lines() const { return std::ranges::all_of(magics(), is_line); }
  bool any_lines() const { return std::ranges::any_of(magics(), is_line); }

 private:
  std::span<const double> magics() const { return std::span(lines).last(lines.size() / 5); }
  static bool is_line(double magic) { return magic != 0; }
};

/// For sums of each channel in [least, most]. Where values fall as sums rise, the channel's weights and the
/// bounds of its sums are negated.
StepFunctions step_functions(const Chain& chain, const UniformQuantizer& quantizer, IntegerWeight& w,
                             std::vector<std::int32_t>& least, std::vector<std::int32_t>& most);

}  // namespace crumb::runtime
