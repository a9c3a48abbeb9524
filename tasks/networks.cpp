#include "tasks/networks.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/pooling.h>

#include <cmath>

#include "tasks/random.h"

namespace crumb::tasks {
namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Flatten;
using torch::nn::Linear;
using torch::nn::MaxPool2d;
using torch::nn::ReLU;
using torch::nn::Sequential;

Conv2d same_conv(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return Conv2d(Conv2dOptions(in, out, kernel).padding(kernel / 2));
}

}  // namespace

Sequential mlp(const Normalise& normalise, const std::vector<std::int64_t>& sizes) {
  Sequential net;
  net->push_back("normalise", normalise);
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const std::string number = std::to_string(i);
    net->push_back("fc" + number, Linear(sizes[i - 1], sizes[i]));
    if (i + 1 < sizes.size()) net->push_back("relu" + number, ReLU());
  }
  return net;
}

Sequential digits_cnn(const Normalise& normalise) {
  Sequential net;
  net->push_back("normalise", normalise);
  net->push_back("conv1", same_conv(1, 16, 3));
  net->push_back("relu1", ReLU());
  net->push_back("conv2", same_conv(16, 32, 3));
  net->push_back("relu2", ReLU());
  net->push_back("pool2", MaxPool2d(2));
  net->push_back("conv3", same_conv(32, 32, 3));
  net->push_back("relu3", ReLU());
  net->push_back("pool3", MaxPool2d(2));
  net->push_back("flatten", Flatten());
  net->push_back("fc", Linear(32 * 2 * 2, 10));
  return net;
}

EspcnImpl::EspcnImpl()
    : conv1(register_module("conv1", same_conv(1, 32, 5))),
      conv2(register_module("conv2", same_conv(32, 32, 3))),
      conv3(register_module("conv3", same_conv(32, 16, 3))),
      conv4(register_module("conv4", same_conv(16, 9, 3))) {}

at::Tensor EspcnImpl::forward(const at::Tensor& pixels) {
  const at::Tensor x = (pixels - 127.5) * (1 / 127.5);
  const at::Tensor features = at::relu(conv3(at::relu(conv2(at::relu(conv1(x))))));
  return (at::pixel_shuffle(conv4(features) + x, 3) + 1) * 127.5;
}

LineReaderImpl::LineReaderImpl(const Normalise& normalise_with)
    : normalise(register_module("normalise", normalise_with)),
      lstm(register_module(
          "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(8, 32).bidirectional(true).batch_first(true)))),
      fc(register_module("fc", Linear(64, 11))) {}

at::Tensor LineReaderImpl::forward(const at::Tensor& x) {
  return fc->forward(std::get<0>(lstm->forward(normalise->forward(x))));
}

void initialise(torch::nn::Module& module, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  std::uint64_t stream = 1;
  double bound = 1;  // a bias has its weight's bound
  for (auto& parameter : module.named_parameters()) {
    at::Tensor& values = parameter.value();
    const bool recurrent = parameter.key().find("lstm") != std::string::npos;
    if (values.dim() >= 2) {
      const std::int64_t rows = values.size(0), fan_in = recurrent ? rows / 4 : values.numel() / rows;
      bound = 1 / std::sqrt(static_cast<double>(fan_in));
    }
    Random random(seed, stream++);
    float* out = values.data_ptr<float>();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      out[i] = static_cast<float>(random.uniform(-bound, bound));
    }
  }
}

}  // namespace crumb::tasks
