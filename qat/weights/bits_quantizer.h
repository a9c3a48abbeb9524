// Quantizes a weight and learns its width with it: signed integers of n bits, n the rounded value of a
// parameter.
//
//   clip   alpha, one for each channel or one for the tensor: the largest magnitude on the grid
//   bits   a real number; n = round(bits), the gradient passes
//
//   s = alpha / (2^(n-1) - 1), q = clamp(round(w / s)), and the quantized weight is s q
//
// With g the gradient to the quantized weight: alpha has LSQ's (arXiv:1902.08153), through s and with its
// factor 1 / sqrt(N Qp). Only values inside the clip give a gradient to bits, because those beyond it do not
// move when n does:
//
//   dL/dn = sum over |w| <= alpha of g (q - w / s) ds/dn,   ds/dn = -s ln(2) 2^(n-1) / (2^(n-1) - 1)
//
// With range=full alpha is the magnitude of the least code's value, -2^(n-1): s = alpha / 2^(n-1), and the
// value of the greatest code, one step less, moves by ln(2) s.
//
// Where the width is fixed the clip stays as it was, the scale follows from n, and the rest is LSQ.
#pragma once

#include "qat/weights/weight_quantizer.h"
#include "quant/accumulator/integer_width.h"

namespace crumb::qat {

/// Whether the width of weights with this spec can be learned: signed integers, a scale for each channel or
/// for the tensor, no zero point.
bool has_learnable_bits(const QuantSpec& spec);

class BitsQuantizer : public WeightQuantizer {
 public:
  /// Begins at the spec's own width, clamped to `least` and `most`. Precondition: has_learnable_bits(spec), 2
  /// <= least <= most <= 8.
  BitsQuantizer(const QuantSpec& spec, int least, int most);

  void start(at::Tensor& latent) override;
  at::Tensor quantized(const at::Tensor& latent) override;
  QuantizedTensor freeze(const at::Tensor& latent) override;
  at::Tensor scales(const at::Tensor& latent) override;
  bool rewinds(const std::string& parameter) const override { return parameter != "bits"; }

  int width() const;                                ///< as it is now
  double real_bits() const;                         ///< the value of `bits`, between least and most
  const at::Tensor& bits() const { return bits_; }  ///< the parameter, [1]
  bool is_fixed() const;
  void fix(int width);

  /// Clamps the parameter to least and most, after an optimizer's step.
  void clamp();

  /// Returns by how much one bit more or less would change the loss: a moving average of the gradient's
  /// magnitude, without a penalty's part.
  double pressure() const;

 private:
  QuantSpec spec() const { return with_bits(spec_, width()); }
  at::Tensor scale() const;
  /// Returns dy/dn, of latent's shape.
  at::Tensor slope(const at::Tensor& latent, const at::Tensor& made) const;

  QuantSpec spec_;
  int least_, most_;
  at::Tensor clip_, bits_;
  at::Tensor fixed_;         ///< int64 [1]; 0: not yet
  at::Tensor pressure_;      ///< float64 [1]
  std::int64_t values_ = 1;  ///< number of values that share a scale
};

}  // namespace crumb::qat
