// The parts of an encoder that are no products, over float32 rows.
//
// Everything here is written in IEEE additions, multiplications and divisions in a fixed order, so that
// neither the width of the vectors a compiler chooses nor the place of a row in memory or batch changes a
// bit. The references next to it say what is meant: the same functions through the C library, in double.
#pragma once

#include <cstddef>
#include <span>

#include "formats/checkpoint/bert_config.h"

namespace crumb::encoder {

/// GELU goes through erfc after Abramowitz and Stegun 7.1.26 (off by 1.5e-7 at most before rounding).
void activate(Activation activation, std::span<float> values);
double activation_reference(Activation activation, double x);

/// e^x for x <= 0, with a relative error of 3e-7 at most; 1.2e-38 where x < -87.3.
void exp_nonpositive(std::span<float> values);

/// Each row of `width` values becomes softmax(scale * row).
void softmax_rows(std::span<float> values, size_t width, float scale);

/// Each row becomes (row - mean) / sqrt(variance + epsilon) * weight + bias; weight.size() is the width. The
/// variance divides by the width.
void layer_norm_rows(std::span<float> values, std::span<const float> weight, std::span<const float> bias,
                     float epsilon);

/// to += from.
void add_to(std::span<float> to, std::span<const float> from);
/// Adds bias to each row; bias.size() is the width.
void add_bias_rows(std::span<float> values, std::span<const float> bias);

/// The sum of f(value) in eight interleaved partial sums, added up in a fixed tree.
template <class F>
float lane_sum(std::span<const float> values, F f) {
  constexpr size_t kLanes = 8;
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += f(values[i + lane]);
  }
  for (size_t lane = 0; i < values.size(); ++i, ++lane) sums[lane] += f(values[i]);
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

}  // namespace crumb::encoder
