#include "eval/tasks/pictures.h"

#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "eval/tasks/same_shape.h"

namespace crumb::eval {
namespace {

constexpr std::size_t kWindow = 11;
constexpr double kDeviation = 1.5;

std::array<double, kWindow> window_weights() {
  std::array<double, kWindow> weights{};
  double sum = 0;
  for (std::size_t i = 0; i < kWindow; ++i) {
    constexpr std::size_t kMiddle = kWindow / 2;
    const double away = static_cast<double>(i) - static_cast<double>(kMiddle);
    sum += weights[i] = std::exp(-away * away / (2 * kDeviation * kDeviation));
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// Weighted means in the windows that lie inside: first along rows, then along columns.
template <class At>
std::vector<double> window_means(std::size_t height, std::size_t width, const At& at) {
  static const std::array<double, kWindow> weights = window_weights();
  const std::size_t columns = width - kWindow + 1, rows = height - kWindow + 1;
  std::vector<double> along(height * columns), means(rows * columns);
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < columns; ++x)
      for (std::size_t i = 0; i < kWindow; ++i) along[y * columns + x] += weights[i] * at(y, x + i);
  for (std::size_t y = 0; y < rows; ++y)
    for (std::size_t i = 0; i < kWindow; ++i)
      for (std::size_t x = 0; x < columns; ++x)
        means[y * columns + x] += weights[i] * along[(y + i) * columns + x];
  return means;
}

/// Where a sample's planes lie.
struct Planes {
  std::size_t count = 1, height = 0, width = 0, stride = 1, apart = 0;

  explicit Planes(std::span<const std::int64_t> shape) {
    constexpr std::size_t kChannels = 4;
    const auto size = [&](std::size_t axis) { return static_cast<std::size_t>(shape[axis]); };
    const std::size_t rank = shape.size();
    if (rank == 3 && size(2) <= kChannels && size(0) > kChannels) {  // channels last
      count = stride = size(2);
      height = size(0);
      width = size(1);
      apart = 1;
      return;
    }
    height = size(rank - 2);
    width = size(rank - 1);
    for (std::size_t axis = 0; axis + 2 < rank; ++axis) count *= size(axis);
    apart = height * width;
  }
  Plane plane(std::span<const float> values, std::size_t i) const {
    return {.first = values.data() + i * apart, .height = height, .width = width, .stride = stride};
  }
};

}  // namespace

double structural_similarity(const Plane& a, const Plane& b, double peak) {
  constexpr double kOfMeans = 0.01, kOfSpreads = 0.03;
  const double c1 = kOfMeans * peak * kOfMeans * peak, c2 = kOfSpreads * peak * kOfSpreads * peak;
  const auto means = [&](const auto& at) { return window_means(a.height, a.width, at); };
  using Index = std::size_t;
  const auto of_a = means([&](Index y, Index x) { return a.at(y, x); });
  const auto of_b = means([&](Index y, Index x) { return b.at(y, x); });
  const auto of_aa = means([&](Index y, Index x) { return a.at(y, x) * a.at(y, x); });
  const auto of_bb = means([&](Index y, Index x) { return b.at(y, x) * b.at(y, x); });
  const auto of_ab = means([&](Index y, Index x) { return a.at(y, x) * b.at(y, x); });
  double sum = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const double aa = of_a[i] * of_a[i], bb = of_b[i] * of_b[i], ab = of_a[i] * of_b[i];
    sum +=
        (2 * ab + c1) * (2 * (of_ab[i] - ab) + c2) / ((aa + bb + c1) * (of_aa[i] - aa + of_bb[i] - bb + c2));
  }
  return sum / static_cast<double>(of_a.size());
}

Pictures::Pictures(double peak)
    : peak_(peak),
      psnr_(add_metric(std::make_unique<SumMetric>(MetricName{.name = "psnr", .unit = "dB", .digits = 3},
                                                   mean_of_sums, 2))),
      ssim_(
          add_metric(std::make_unique<SumMetric>(MetricName{.name = "ssim", .digits = 5}, mean_of_sums, 2))) {
}

void Pictures::add(const SampleOutput& output, const SampleLabel& label) {
  check_same_shape(output, label, "image");
  if (output.shape.size() < 2)
    throw Error("image takes pictures, and a sample's output is " + shape_words(output.shape));
  double squares = 0;
  for (std::size_t i = 0; i < label.values.size(); ++i) {
    const double error = static_cast<double>(label.values[i]) - output.values[i];
    squares += error * error;
  }
  const double psnr =
      squares == 0 ? std::numeric_limits<double>::infinity()
                   : 10 * std::log10(peak_ * peak_ * static_cast<double>(label.values.size()) / squares);
  psnr_.add(std::vector<Term>{{0, psnr}, {1, 1}});
  const Planes planes(output.shape);
  if (planes.height < kWindow || planes.width < kWindow) return ssim_.add({});
  double ssim = 0;
  for (std::size_t i = 0; i < planes.count; ++i)
    ssim += structural_similarity(planes.plane(label.values, i), planes.plane(output.values, i), peak_);
  ssim_.add(std::vector<Term>{{0, ssim / static_cast<double>(planes.count)}, {1, 1}});
}

}  // namespace crumb::eval
