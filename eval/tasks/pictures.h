// Pictures that should be other pictures.
//
//   psnr  the mean over pictures of 10 log10(peak^2 / mean squared error), in dB; infinite where one has no
//         error
//   ssim  the mean over pictures of the structural similarity of Wang, Bovik, Sheikh, Simoncelli (2004):
//         windows of 11 x 11 under a Gaussian of standard deviation 1.5, moments with weights that sum to 1,
//         constants (0.01 peak)^2 and (0.03 peak)^2, the mean over windows that lie inside the picture and
//         over channels. scikit-image: structural_similarity(gaussian_weights=True, sigma=1.5,
//         use_sample_covariance=False, data_range=peak). Pictures with a side below 11 have none
#pragma once

#include <cstddef>
#include <span>

#include "eval/tasks/scorer.h"

namespace crumb::eval {

class Pictures final : public Scorer {
 public:
  /// `peak`: the range of the numbers, 255 or 1.
  explicit Pictures(double peak);
  /// Labels are values of the output's shape: [H, W], [channels, H, W], or [H, W, channels] where the last
  /// axis is at most 4 and the first is longer.
  void add(const SampleOutput& output, const SampleLabel& label) override;

 private:
  double peak_;
  SumMetric &psnr_, &ssim_;
};

/// A plane of numbers, [height, width], `stride` apart.
struct Plane {
  const float* first = nullptr;
  std::size_t height = 0, width = 0, stride = 1;
  double at(std::size_t y, std::size_t x) const { return first[(y * width + x) * stride]; }
};

/// The structural similarity of two planes of one size, whose sides are at least 11.
double structural_similarity(const Plane& a, const Plane& b, double peak);

}  // namespace crumb::eval
