#include "encoder/pooling.h"

#include <algorithm>
#include <cmath>

#include "encoder/elementwise.h"

namespace crumb::encoder {
namespace {

void pool_sum(std::span<const float> states, size_t width, PoolingMode mode, std::span<float> out) {
  const size_t length = states.size() / width;
  std::ranges::fill(out, 0.0F);
  float total = 0;
  for (size_t i = 0; i < length; ++i) {
    const float weight = mode == PoolingMode::kWeightedMean ? static_cast<float>(i + 1) : 1.0F;
    for (size_t j = 0; j < width; ++j) out[j] += weight * states[i * width + j];
    total += weight;
  }
  const float divisor = mode == PoolingMode::kMeanSqrtLen ? std::sqrt(total) : total;
  for (float& x : out) x /= divisor;
}

void pool_max(std::span<const float> states, size_t width, std::span<float> out) {
  std::ranges::copy(states.first(width), out.begin());
  for (size_t at = width; at < states.size(); at += width) {
    for (size_t j = 0; j < width; ++j) out[j] = std::max(out[j], states[at + j]);
  }
}

}  // namespace

void pool(std::span<const float> states, size_t width, const std::vector<PoolingMode>& modes,
          std::span<float> out) {
  for (size_t m = 0; m < modes.size(); ++m) {
    const auto part = out.subspan(m * width, width);
    switch (modes[m]) {
      case PoolingMode::kCls: std::ranges::copy(states.first(width), part.begin()); break;
      case PoolingMode::kLastToken: std::ranges::copy(states.last(width), part.begin()); break;
      case PoolingMode::kMax: pool_max(states, width, part); break;
      default: pool_sum(states, width, modes[m], part);
    }
  }
}

}  // namespace crumb::encoder
