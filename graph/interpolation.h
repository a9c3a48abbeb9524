// One axis of a Resize: which elements of the input stand behind each element of the output, how heavy each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crumb::graph {

enum class Interpolation : std::uint8_t { kNearest, kLinear, kCubic };

/// How Resize reads its coordinates. The names of modes are ONNX's.
struct ResizeRule {
  Interpolation interpolation = Interpolation::kNearest;
  std::string coordinates = "half_pixel";       ///< coordinate_transformation_mode
  std::string rounding = "round_prefer_floor";  ///< nearest_mode; "simple": as Resize did in operator set 10
  double cubic = -0.75;                         ///< cubic_coeff_a
  bool antialias = false;
  bool exclude_outside = false;
};

struct ResizedAxis {
  std::int64_t in = 0, out = 0;
  float scale = 1;           ///< out / in, where the sizes were given; the scale that was asked for otherwise
  float start = 0, end = 1;  ///< of the region of interest, for tf_crop_and_resize

  /// Nothing happens on the axis.
  bool is_still() const { return in == out && scale == 1 && start == 0 && end == 1; }
};

/// What each output is made of: `taps` elements of the input each, and their weights.
struct Taps {
  std::int64_t taps = 0;
  std::vector<std::int64_t> places;  ///< [out, taps], inside the input
  std::vector<double> weights;       ///< [out, taps]; empty for kNearest, whose one tap weighs 1
  std::vector<bool> outside;  ///< [out], for tf_crop_and_resize: outputs that have no input; else empty
};

/// Coordinates are counted in single precision, as ONNX Runtime and PyTorch count them: where one is exactly between two
/// elements, that decides which is nearest. Needs in, out > 0 and a finite scale > 0, and names of modes that ONNX knows.
Taps taps_of(const ResizeRule& rule, const ResizedAxis& axis);

bool is_coordinate_mode(const std::string& name);
bool is_nearest_mode(const std::string& name);

}  // namespace crumb::graph
