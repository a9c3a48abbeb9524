// Fake quantization with scales that are given, where a tensor lies, in LibTorch's own operators: what ScaledQuantizer
// computes on the CPU, for GPUs. Values have the same bits (a zero's sign apart); gradients the same terms, whose sums are
// LibTorch's.
//
// A grid without randomness is an ascending function of u = x / s (+ z), so a table of its values and of the greatest u that
// gives each says everything about it, whatever the number format and its rounding.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "quant/quant_spec.h"

namespace crumb {

class DeviceQuantizer {
 public:
  /// Of tensors of that shape on that device. Nothing where ScaledQuantizer has to do it: stochastic rounding, codebooks that
  /// are learned, blocks that reach over rows or are cut off.
  static std::optional<DeviceQuantizer> of(const QuantSpec& spec, at::IntArrayRef shape, at::Device device);

  /// y, float32, of x's shape. A value that is inf or NaN gives NaN, which nobody waits for; neither does anybody look whether
  /// scales are negative, and what comes of those means nothing. scale, zero: one for each block, float32; zero undefined
  /// where the spec has none. Throws Error for others.
  at::Tensor values(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero) const;

  /// Gradients of sum(grad * y): of x, and, one for each block, of the scales and of the zero points.
  struct Gradients {
    at::Tensor x, scale, zero;
  };
  Gradients gradients(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero,
                      const at::Tensor& grad) const;

 private:
  DeviceQuantizer() = default;
  at::Tensor blocks_of(const at::Tensor& x) const;
  void check(const at::Tensor& scale, const at::Tensor& zero) const;
  at::Tensor on_grid(const at::Tensor& ratio, const at::Tensor& zero) const;

  /// A grid on a device.
  struct Steps {
    at::Tensor last, values;   ///< of each step the greatest u, but for the last step's; the value
    float add = 0;             ///< to x / s, for the band where gradients pass
    bool is_half = false;      ///< a half-integer grid, which adds that instead of the zero point
    float lo = 0, hi = 0;      ///< that band
    bool shifts = false;       ///< by the zero point, before rounding
    bool passes_scale = true;  ///< false: binary, whose scale's gradient is the value alone
  };
  static const Steps& steps_of(const QuantSpec& spec, at::Device device);  ///< found once for each

  std::int64_t blocks_ = 0;
  bool has_zero_ = false;
  const Steps* steps_ = nullptr;  ///< lives on
};

}  // namespace crumb
