// A weight whose width is learned with it: signed integers of n bits, n the rounded value of a parameter.
//
//   clip   alpha, one for each channel or one for the tensor: the largest magnitude that the grid says
//   bits   a real number; n = round(bits), the gradient passes
//
//   s = alpha / (2^(n-1) - 1), q = clamp(round(w / s)), and the weight reads as s q
//
// With g the gradient to what the weight reads as: alpha has LSQ's (arXiv:1902.08153), through s and with its factor
// 1 / sqrt(N Qp). To bits only values inside the clip give any, for those beyond it do not move when n does:
//
//   dL/dn = sum over |w| <= alpha of g (q - w / s) ds/dn,   ds/dn = -s ln(2) 2^(n-1) / (2^(n-1) - 1)
//
// With range=full alpha is what the least code says, -2^(n-1): s = alpha / 2^(n-1), and the greatest code, one step
// less, moves by ln(2) s.
//
// A width that is fixed stays: the clip as it was, the scale what n makes of it, and the rest is LSQ.
#pragma once

#include "qat/weights/weight_quantizer.h"
#include "quant/accumulator/integer_width.h"

namespace crumb::qat {

/// Whether the width of such weights can be learned: signed integers, a scale for each channel or for the tensor, no
/// zero point.
bool has_learnable_bits(const QuantSpec& spec);

class BitsQuantizer : public WeightQuantizer {
 public:
  /// Begins at the spec's own width, brought between `least` and `most`. Precondition: has_learnable_bits(spec),
  /// 2 <= least <= most <= 8.
  BitsQuantizer(const QuantSpec& spec, int least, int most);

  void start(at::Tensor& latent) override;
  at::Tensor quantized(const at::Tensor& latent) override;
  QuantizedTensor freeze(const at::Tensor& latent) override;
  at::Tensor scales(const at::Tensor& latent) override;
  bool rewinds(const std::string& parameter) const override { return parameter != "bits"; }

  int width() const;                                ///< of now
  double real_bits() const;                         ///< what `bits` is, between least and most
  const at::Tensor& bits() const { return bits_; }  ///< the parameter, [1]
  bool is_fixed() const;
  void fix(int width);

  /// Puts the parameter back between least and most, where an optimizer took it out.
  void clamp();

  /// What one bit more or less would change in the loss: a moving average of the gradient's magnitude. Without what a
  /// penalty adds.
  double pressure() const;

 private:
  QuantSpec spec() const { return with_bits(spec_, width()); }
  at::Tensor scale() const;
  /// dy/dn, of latent's shape.
  at::Tensor slope(const at::Tensor& latent, const at::Tensor& made) const;

  QuantSpec spec_;
  int least_, most_;
  at::Tensor clip_, bits_;
  at::Tensor fixed_;         ///< int64 [1]; 0: not yet
  at::Tensor pressure_;      ///< float64 [1]
  std::int64_t values_ = 1;  ///< that share a scale
};

}  // namespace crumb::qat
