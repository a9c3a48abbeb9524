// Fake quantization with given scales in LibTorch's own operators, on the device of the tensor: what
// ScaledQuantizer computes on the CPU, for GPUs. Values have the same bits (except for the sign of a zero);
// gradients have the same terms, whose sums are LibTorch's.
//
// A grid without randomness is an ascending function of u = x / s (+ z). So a table of its values, each with
// the greatest u that it stands for, describes it fully, whatever the number format and its rounding.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "quant/quant_spec.h"

namespace crumb {

class DeviceQuantizer {
 public:
  /// For tensors of that shape on that device. Nothing where only ScaledQuantizer can do it: stochastic
  /// rounding, learned codebooks, blocks that reach over rows or are cut off.
  static std::optional<DeviceQuantizer> of(const QuantSpec& spec, at::IntArrayRef shape, at::Device device);

  /// y, float32, of x's shape. A value that is inf or NaN gives NaN, without an error, because checking would
  /// have to wait for the device; for the same reason negative scales are not checked, and give meaningless
  /// values. scale, zero: one for each block, float32; zero is undefined where the spec has no zero points.
  /// Throws Error for others.
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
    at::Tensor last, values;   ///< the greatest u of each step but the last, and the value of each step
    float add = 0;             ///< what is added to x / s for the band where gradients pass
    bool is_half = false;      ///< a half-integer grid, which adds that instead of the zero point
    float lo = 0, hi = 0;      ///< bounds of that band
    bool shifts = false;       ///< whether the zero point is added before rounding
    bool passes_scale = true;  ///< false: binary, whose scale's gradient is the value alone
  };
  static const Steps& steps_of(const QuantSpec& spec, at::Device device);  ///< found once for each

  std::int64_t blocks_ = 0;
  bool has_zero_ = false;
  const Steps* steps_ = nullptr;  ///< lives on
};

}  // namespace crumb
