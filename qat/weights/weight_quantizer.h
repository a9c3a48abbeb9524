// Quantizes one weight while it trains, and gives its codes at the end. Free of graphs and files.
//
//   statistics   scales searched anew in every forward pass, as the spec says (absmax, mse, ...): block
//                formats (MX, NVFP4) and palettes always
//   learned      LSQ (arXiv:1902.08153): scales are parameters, started by the spec's search, their gradient
//                times 1 / sqrt(N Qp), N values a scale, Qp the largest code. On half-integer grids that is
//                ParetoQ's stretched elastic quantizer (arXiv:2502.02631), on binary its elastic one
//   weight_norm  the spec's grid on g w / ||w||_2, g and the scale learned in log2 (Salimans & Kingma,
//                arXiv:1602.07868)
//   mean         BitNet b1.58 (arXiv:2402.17764): scale = mean |w|, a statistic
//   (learned widths: qat/weights/bits_quantizer.h)
//   A2Q, A2Q+    qat/weights/a2q.h: weights, norms and scales are three parameters
//
// Weights have the output channels on axis 0, as in quant/.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qat/weights/a2q.h"
#include "quant/quantized_tensor.h"
#include "quant/recipe/recipe.h"

namespace crumb::qat {

class WeightQuantizer : public torch::nn::Module {
 public:
  /// Sets the parameters from a weight: once, before the first forward pass. May change `latent` itself
  /// (A2Q's projection): it is the tensor that the optimizer has.
  virtual void start(at::Tensor& latent) = 0;

  /// Where scales and zero points are parameters, replaces those that start() found by those of these codes,
  /// whose values latent has. From now on codes follow from latent under these scales, and a learned scale
  /// only multiplies their values: its gradient is that of fixed codes. After start(). Precondition: the
  /// codes are of the spec.
  virtual void take_scales(const QuantizedTensor&) {}

  /// Fixes the codes as they are for this latent, which is not read any more; scales still learn
  /// (EfficientQAT's second stage, arXiv:2407.11062). After start(). Returns false and changes nothing where
  /// scales are no parameters.
  virtual bool fix_codes(const at::Tensor&) { return false; }

  /// Returns the weight as quantized, of latent's shape, float32, differentiable. After start().
  virtual at::Tensor quantized(const at::Tensor& latent) = 0;

  /// Returns the same values as codes. No gradients.
  virtual QuantizedTensor freeze(const at::Tensor& latent) = 0;

  /// Returns one effective scale for each output channel (or one for all) as quantized() now uses it: a bias
  /// at scale_in * scale_weight is quantized with it. float32, without gradient.
  virtual at::Tensor scales(const at::Tensor& latent) = 0;

  /// Takes a mask of latent's shape, bool, false for pruned weights, which are passed as zeros. Kept by
  /// handle: it may change.
  void set_kept(const at::Tensor& kept) { kept_ = kept; }

  /// Returns the penalty of an accumulator; an undefined tensor where there is none.
  virtual at::Tensor penalty() const { return {}; }

  /// Whether this parameter goes back to its first values when pruning rewinds.
  virtual bool rewinds(const std::string&) const { return true; }

 protected:
  at::Tensor kept_;  ///< undefined: no weight is pruned
};

/// A layer's accumulator, as A2Q needs to know it.
struct AccumulatorConstraint {
  AccumulatorGoal goal;
  IntegerRange input;
};

/// Throws Error where the method does not fit the spec; `what` names the weight.
std::shared_ptr<WeightQuantizer> make_weight_quantizer(const QuantSpec& spec, WeightScales scales,
                                                       const std::string& what);

/// An A2Q quantizer also reports how far repair had to go, and takes biases that start the sum.
class AccumulatorQuantizer : public WeightQuantizer {
 public:
  /// Throws Error unless the spec is a signed narrow integer grid with a scale for each channel or for the
  /// tensor.
  AccumulatorQuantizer(const QuantSpec& spec, const AccumulatorConstraint& constraint,
                       const std::string& what);

  void start(at::Tensor& latent) override;
  at::Tensor quantized(const at::Tensor& latent) override;
  QuantizedTensor freeze(const at::Tensor& latent) override;
  at::Tensor scales(const at::Tensor& latent) override;
  at::Tensor penalty() const override;

  /// Takes codes of a bias, one a row, that are added into the same register; none removes them.
  void set_bias(std::vector<std::int64_t> codes) { bias_ = std::move(codes); }

  /// Takes another range of the input, as when calibration finds its zero point.
  void set_input(IntegerRange input);

  const AccumulatorConstraint& constraint() const { return constraint_; }
  std::int64_t repaired() const { return repaired_; }  ///< unit steps in the last forward pass

 private:
  QuantSpec spec_;
  AccumulatorConstraint constraint_;
  A2qSettings settings_;
  std::string what_;
  at::Tensor log2_norm_, log2_scale_;
  std::vector<std::int64_t> bias_;
  std::int64_t repaired_ = 0;
};

}  // namespace crumb::qat
