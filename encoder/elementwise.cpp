#include "encoder/elementwise.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "encoder/lanes.h"

namespace crumb::encoder {
namespace {

inline Lanes magnitude(Lanes x) { return (Lanes)((IntLanes)x & 0x7FFFFFFF); }

/// e^x for x <= 0: x = n ln 2 + r with |r| <= ln(2) / 2, e^r by a polynomial (Cephes expf), 2^n through the
/// exponent.
inline Lanes exp_lanes(Lanes x) {
  constexpr float kLeast = -87.3F;
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  x = x < kLeast ? all_lanes(kLeast) : x;
  const Lanes shifted = x * std::numbers::log2e_v<float> + kRounder;
  const Lanes n = shifted - kRounder;
  const Lanes r = (x - n * kLn2High) - n * kLn2Low;
  Lanes p = all_lanes(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const IntLanes exponent = (IntLanes)shifted - std::bit_cast<int32_t>(kRounder) + 127;
  return p * (Lanes)(exponent << 23);
}

inline Lanes gelu(Lanes x) {
  const Lanes z = magnitude(x) * (1 / std::numbers::sqrt2_v<float>);
  const Lanes t = 1.0F / (1.0F + 0.3275911F * z);
  Lanes p = all_lanes(1.061405429F);
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const Lanes half_erfc = 0.5F * (p * t) * exp_lanes(-(z * z));  // the smaller of Phi(x) and Phi(-x)
  return x < 0 ? x * half_erfc : x - x * half_erfc;
}

inline Lanes tanh_of(Lanes x) {
  const Lanes e = exp_lanes(-2.0F * magnitude(x));
  const Lanes positive = (1.0F - e) / (1.0F + e);
  return x < 0 ? -positive : positive;
}

inline Lanes gelu_tanh(Lanes x) {
  constexpr float kScale = 0.7978845608F;  // sqrt(2 / pi)
  return 0.5F * x * (1.0F + tanh_of(kScale * (x + 0.044715F * (x * x * x))));
}

}  // namespace

void activate(Activation activation, std::span<float> values) {
  switch (activation) {
    case Activation::kGelu: return map_lanes(values, gelu);
    case Activation::kGeluTanh: return map_lanes(values, gelu_tanh);
    case Activation::kRelu: return map_lanes(values, [](Lanes x) { return x < 0 ? all_lanes(0) : x; });
    case Activation::kTanh: return map_lanes(values, tanh_of);
    case Activation::kIdentity: return;
  }
}

double activation_reference(Activation activation, double x) {
  switch (activation) {
    case Activation::kGelu: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu: return x < 0 ? 0 : x;
    case Activation::kTanh: return std::tanh(x);
    case Activation::kIdentity: break;
  }
  return x;
}

void exp_nonpositive(std::span<float> values) { map_lanes(values, exp_lanes); }

void softmax_rows(std::span<float> values, size_t width, float scale) {
  for (size_t at = 0; at < values.size(); at += width) {
    const std::span<float> row = values.subspan(at, width);
    const float largest = largest_of(row);
    map_lanes(row, [=](Lanes x) { return exp_lanes((x - largest) * scale); });
    const float inverse = 1.0F / lane_sum(row, [](float x) { return x; });
    for (float& x : row) x *= inverse;
  }
}

void layer_norm_rows(std::span<float> values, std::span<const float> weight, std::span<const float> bias,
                     float epsilon) {
  const size_t width = weight.size();
  for (size_t at = 0; at < values.size(); at += width) {
    const std::span<float> row = values.subspan(at, width);
    const float mean = lane_sum(row, [](float x) { return x; }) / static_cast<float>(width);
    const float squares = lane_sum(row, [mean](float x) { return (x - mean) * (x - mean); });
    const float inverse = 1.0F / std::sqrt(squares / static_cast<float>(width) + epsilon);
    for (size_t i = 0; i < width; ++i) row[i] = (row[i] - mean) * inverse * weight[i] + bias[i];
  }
}

void add_to(std::span<float> to, std::span<const float> from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

void add_bias_rows(std::span<float> values, std::span<const float> bias) {
  for (size_t at = 0; at < values.size(); at += bias.size()) add_to(values.subspan(at, bias.size()), bias);
}

}  // namespace crumb::encoder
