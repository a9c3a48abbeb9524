// The networks of crumb-bench qat: ordinary LibTorch modules, with places for quantizers of activations that stay empty in
// float.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "qat/quant_activation.h"

namespace crumb::bench {

class QatNetwork : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x) = 0;
  virtual at::Tensor example() const = 0;  ///< a batch
  virtual at::Tensor labels() const = 0;   ///< of the batch, among 10 classes
  /// What the inputs of constrained layers are quantized to.
  virtual std::string activations() const = 0;

 protected:
  /// A place for a quantizer. Only networks with hooks have them filled.
  std::size_t place(bool filled, const char* spec);
  at::Tensor at_place(std::size_t index, const at::Tensor& x);

 private:
  std::vector<std::shared_ptr<qat::QuantActivationImpl>> places_;
};

/// "cnn": residual blocks of 3x3 convolutions, two of 64 channels at 32x32 and two of 128 at 16x16, batches of 32.
/// "transformer": one block, 384 wide, 6 heads, 8 sequences of 128.
std::shared_ptr<QatNetwork> make_qat_network(const std::string& name, bool quantizes_activations);

}  // namespace crumb::bench
