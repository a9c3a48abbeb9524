// The quantizer behind a layer as a step function of each channel's sums.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/lower/chain.h"
#include "runtime/lower/weights.h"

namespace crumb::runtime {

/// Thresholds of each channel, and the lines that stand for them (integer/lines.h).
struct StepFunctions {
  std::vector<std::int32_t> thresholds;  ///< [channels, steps]
  /// [pieces, 5, channels]: slope, offset, least, most, magic; zeros for channels without lines. Channels
  /// with fewer lines than others have lines at 0 behind them. No pieces where no channel has lines.
  std::vector<double> lines;
  std::size_t pieces = 0;
  bool all_lines = true;
};

/// For sums of each channel in [least, most]. Where values fall as sums rise, the channel's weights and the
/// bounds of its sums are negated.
StepFunctions step_functions(const Chain& chain, const UniformQuantizer& quantizer, IntegerWeight& w,
                             std::vector<std::int32_t>& least, std::vector<std::int32_t>& most);

}  // namespace crumb::runtime
