// Piecewise linear activations, in a form that compilers vectorize.
#pragma once

namespace crumb::runtime {

/// max(0, min(1, alpha * x + beta)); 1 where x is NaN, as fmax and fmin have it.
inline float hard_sigmoid_of(float x, float alpha, float beta) {
  const float line = alpha * x + beta, most = line < 1 ? line : 1.0F;
  return most < 0 ? 0.0F : most;
}

/// x * max(0, min(1, x / 6 + 1 / 2)).
inline float hard_swish_of(float x) {
  const float line = x / 6 + 0.5F, most = line < 1 ? line : 1.0F;
  return x * (most < 0 ? 0.0F : most);
}

}  // namespace crumb::runtime
