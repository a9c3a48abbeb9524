// Fake quantization written with LibTorch's operators, as a user of LibTorch would write it: what Crumb's fused operators
// are timed against. In the type of the arguments.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>

namespace crumb::bench {

/// r in the forward pass, the gradient to u.
inline at::Tensor straight_through(const at::Tensor& u, const at::Tensor& r) { return u + (r - u).detach(); }

/// LSQ: integers from lo to hi; `scale` broadcasts to x.
inline at::Tensor composed_fake_quantize(const at::Tensor& x, const at::Tensor& scale, double lo, double hi) {
  const at::Tensor u = x / scale;
  return straight_through(u, u.round()).clamp(lo, hi) * scale;
}

/// The same as LibTorch's own operator, a scale and a zero point (0) for the tensor or, of rank 1, for each row. It
/// multiplies by 1 / scale, so next to a tie it may take the other code.
inline at::Tensor learnable_fake_quantize(const at::Tensor& x, const at::Tensor& scale,
                                          const at::Tensor& zero_point, std::int64_t lo, std::int64_t hi) {
  return scale.numel() > 1 ? at::_fake_quantize_learnable_per_channel_affine(x, scale, zero_point, 0, lo, hi)
                           : at::_fake_quantize_learnable_per_tensor_affine(x, scale, zero_point, lo, hi);
}

/// A2Q+: rows of w, centred, within a budget of code units. log2_norm, log2_scale: [rows].
inline at::Tensor composed_a2q_plus(const at::Tensor& w, const at::Tensor& log2_norm,
                                    const at::Tensor& log2_scale, int bits, double budget) {
  const double most = std::exp2(bits - 1) - 1;
  const at::Tensor scale = at::exp2(log2_scale).unsqueeze(1);
  const at::Tensor v = w - w.mean(1, /*keepdim=*/true);
  const at::Tensor norm = v.abs().sum(1, /*keepdim=*/true);
  const at::Tensor u = v / (norm / (at::exp2(log2_norm).unsqueeze(1) / scale).clamp_max(budget));
  return straight_through(u, u.trunc().clamp(-most, most)) * scale;
}

}  // namespace crumb::bench
