// A2Q and A2Q+ as one LibTorch operator: rows of weights become codes times scales that are always within an
// accumulator's budget. The forward pass is that of quant/accumulator/accumulator_quantizers.h, in double;
// then exact integers: a row whose worst sums still pass the register is repaired
// (quant/accumulator/accumulator.h).
//
//   v = w (A2Q), w - mean(w) (A2Q+)     n = ||v||_1     c = min(2^t / s, T)     s = 2^d, as stored
//   u = v c / n                          q = clamp(trunc(u))                     y = s q
//
// Pruned weights have v = 0, q = 0 and no gradient; the mean is that of the others. Repair only moves codes
// nearer to zero.
//
// Gradients: trunc, clamp and repair count as the identity (arXiv:2401.10432, section 3; with H = s dL/dy):
//
//   dL/dv_j = c / n (H_j - sign(v_j) sum(H v) / n)     dL/dw = dL/dv, less its mean for A2Q+
//   dL/ds   = sum(q dL/dy) - [2^t / s <= T] 2^t / s^2 sum(H v) / n
//   dL/dg   = [2^t / s <= T] sum(H v) / (n s)          dL/dt = g ln2 dL/dg,  dL/dd = s ln2 dL/ds
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "formats/number/scale_format.h"
#include "quant/accumulator/accumulator.h"
#include "quant/accumulator/accumulator_quantizers.h"

namespace crumb::qat {

struct A2qSettings {
  int weight_bits = 8;
  bool centred = true;    ///< A2Q+
  std::int64_t tile = 0;  ///< weights of a row that share a register; 0: all
  int accumulator_bits = 32;
  ScaleFormat scale = ScaleFormat::kF32;  ///< s is 2^d as this format stores it
  IntegerRange input;                     ///< the inputs' range, less their zero point

  std::int64_t tiles(std::int64_t columns) const {
    return tile <= 0 || tile >= columns ? 1 : (columns + tile - 1) / tile;
  }
  /// Returns T of a register that starts with a code of this size.
  double budget(double bias = 0) const {
    return centred ? a2q_plus_budget(accumulator_bits, input, bias)
                   : a2q_budget(accumulator_bits, input, bias);
  }
};

/// Returns s of each row, float32 on the CPU.
at::Tensor a2q_scales(const at::Tensor& log2_scale, ScaleFormat format);

struct A2qResult {
  at::Tensor values;          ///< [rows, columns] float32
  std::int64_t repaired = 0;  ///< unit steps
};

/// weights: [rows, columns] float32; log2_norm: [rows * tiles]; log2_scale: [rows] or [1]; float32, on any
/// device (computed on the CPU). bias: a code for each row that is added into the first tile's register, or
/// empty. kept: bool, of the weights' shape, false where a weight is pruned; undefined: none is. Throws Error
/// where a weight is inf or NaN, and where a bias alone does not fit (naming the row).
A2qResult a2q_values(const at::Tensor& weights, const at::Tensor& log2_norm, const at::Tensor& log2_scale,
                     const std::vector<std::int64_t>& bias, const A2qSettings& settings,
                     const at::Tensor& kept = {});

/// Returns the sum of max(2^t - T s, 0) over rows and tiles, which keeps the norm from growing beyond the
/// budget and getting stuck.
at::Tensor a2q_penalty(const at::Tensor& log2_norm, const at::Tensor& log2_scale,
                       const std::vector<std::int64_t>& bias, const A2qSettings& settings);

}  // namespace crumb::qat
