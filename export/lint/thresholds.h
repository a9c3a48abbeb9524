// Integer quantizers as thresholds: how many of them a value reaches is its code, counted from the least.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "export/lint/subject.h"

namespace crumb::exporting {

/// A quantizer of an activation of at most 8 bits, with constants for parameters.
struct Thresholds {
  std::vector<float> values;  ///< [rows, codes - 1], each row ascending: where the next code begins
  std::size_t rows = 1;       ///< 1, or one for each channel
  float low = 0, high = 0;    ///< the least and the greatest code, less the zero point
  std::vector<float> scales;  ///< of each row

  std::size_t count() const { return values.size() / rows; }
};

/// The least float32 of each next code, whatever the rounding mode and the zero point. Nothing for another
/// node, more than 8 bits, scales that are not positive or stand on another axis than 1, and zero points that
/// differ or are not whole.
std::optional<Thresholds> exact_thresholds(const Subject& subject, const Node& node);

/// Whether exact_thresholds gives some, without computing them.
bool has_thresholds(const Subject& subject, const Node& node);

/// Those that FINN's converter writes: ties go up, and rounding mode and zero point are not looked at
/// (finn.transformation.qonnx.qonnx_activation_handlers of finn-plus 1.6.1).
Thresholds finn_thresholds(Thresholds exact);

/// Values lie on multiples of 2^exponent: half a step below the first that reaches each threshold, so that no
/// rounding of what is added to it or multiplied by it later reaches another value.
Thresholds between_steps(Thresholds thresholds, int exponent);

}  // namespace crumb::exporting
