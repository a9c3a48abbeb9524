// The float networks of the tasks. They take raw inputs: normalisation is part of the network.
#pragma once

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <cstdint>
#include <vector>

namespace crumb::tasks {

/// Computes (x - mean) * factor.
struct NormaliseImpl : torch::nn::Module {
  NormaliseImpl(double mean_of, double factor_of) : mean(mean_of), factor(factor_of) {}
  at::Tensor forward(const at::Tensor& x) { return (x - mean) * factor; }
  double mean, factor;
};
TORCH_MODULE(Normalise);

/// Returns layers "fc1", "fc2", ... of these sizes, with ReLU between them.
torch::nn::Sequential mlp(const Normalise& normalise, const std::vector<std::int64_t>& sizes);

/// Returns a network for pixels [N, 1, 8, 8]: three convolutions of 3x3 (16, 32, 32), a pool after the second
/// and the third, "fc".
torch::nn::Sequential digits_cnn(const Normalise& normalise);

/// ESPCN (arXiv:1609.05158), x3: pixels 0..255 [N, 1, h, w] to [N, 1, 3h, 3w]. Convolutions of 5x5, 3x3, 3x3
/// and a last one to nine channels. The small picture is added to these before they become pixels: the
/// network learns the difference from repeated pixels.
struct EspcnImpl : torch::nn::Module {
  EspcnImpl();
  at::Tensor forward(const at::Tensor& pixels);
  torch::nn::Conv2d conv1, conv2, conv3, conv4;
};
TORCH_MODULE(Espcn);

/// Columns of pixels [N, T, 8] to scores [N, T, 11] of the digits and, last, the blank: an LSTM in both
/// directions of 32 units each, then "fc" (as arXiv:1807.04093 reads lines of text).
struct LineReaderImpl : torch::nn::Module {
  explicit LineReaderImpl(const Normalise& normalise);
  at::Tensor forward(const at::Tensor& x);
  Normalise normalise;
  torch::nn::LSTM lstm;
  torch::nn::Linear fc;
};
TORCH_MODULE(LineReader);

/// Sets every parameter, uniform within 1 / sqrt(fan in) (for LSTMs: of the units), from the seed alone.
void initialise(torch::nn::Module& module, std::uint64_t seed);

}  // namespace crumb::tasks
