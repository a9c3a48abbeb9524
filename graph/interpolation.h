// One axis of a Resize: which input elements each output element is computed from, and by which weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crumb::graph {

enum class Interpolation : std::uint8_t { kNearest, kLinear, kCubic };

/// How Resize maps coordinates. The names of modes are ONNX's.
struct ResizeRule {
  Interpolation interpolation = Interpolation::kNearest;
  std::string coordinates = "half_pixel";       ///< coordinate_transformation_mode
  std::string rounding = "round_prefer_floor";  ///< nearest_mode; "simple": the rounding of operator set 10
  double cubic = -0.75;                         ///< cubic_coeff_a
  bool antialias = false;
  bool exclude_outside = false;
};

struct ResizedAxis {
  std::int64_t in = 0, out = 0;
  float scale = 1;           ///< out / in where sizes were given, else the requested scale
  float start = 0, end = 1;  ///< the region of interest, for tf_crop_and_resize

  /// Whether Resize leaves this axis as it is.
  bool is_still() const { return in == out && scale == 1 && start == 0 && end == 1; }
};

/// The input elements, `taps` of them, and the weights of each output element.
struct Taps {
  std::int64_t taps = 0;
  std::vector<std::int64_t> places;  ///< [out, taps]: indices of input elements
  std::vector<double> weights;       ///< [out, taps]; empty for kNearest, whose one tap weighs 1
  std::vector<bool> outside;         ///< [out]: outputs outside the input, for tf_crop_and_resize; else empty
};

/// Returns the taps of an axis. Coordinates are computed in single precision, as in ONNX Runtime and PyTorch:
/// where one is exactly between two elements, that decides which is nearest. Preconditions: in, out > 0, a
/// finite scale > 0, and names of modes that ONNX defines.
Taps taps_of(const ResizeRule& rule, const ResizedAxis& axis);

bool is_coordinate_mode(const std::string& name);
bool is_nearest_mode(const std::string& name);

}  // namespace crumb::graph
