// Networks for the tests of capture: what people build from torch::nn.
#pragma once

#include "tests/support/torch_doctest.h"
//
#include <torch/nn.h>

namespace crumb::testing {

struct Block : torch::nn::Module {
  Block(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)),
        bn1(out),
        conv2(torch::nn::Conv2dOptions(out, out, 3).padding(1).bias(false)),
        bn2(out),
        shortcut(torch::nn::Conv2dOptions(in, out, 1).stride(stride)) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("conv2", conv2);
    register_module("bn2", bn2);
    register_module("shortcut", shortcut);
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = bn1(conv1(x));
    y = bn2(conv2(torch::relu_(y)));
    y += shortcut(x);
    return torch::relu_(y);
  }
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
  torch::nn::Conv2d shortcut;
};

/// [n, 3, 12, 12] to [n, 10].
struct Cnn : torch::nn::Module {
  Cnn() : layer1(std::make_shared<Block>(3, 8, 1)), layer2(std::make_shared<Block>(8, 12, 2)), fc(12, 10) {
    register_module("layer1", layer1);
    register_module("layer2", layer2);
    register_module("fc", fc);
    for (const at::Tensor& buffer : buffers()) {  // statistics as after training
      if (buffer.is_floating_point()) buffer.uniform_(0.5, 1.5);
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = layer2->forward(torch::max_pool2d(layer1->forward(x), 2));
    return fc(
        torch::dropout(torch::adaptive_avg_pool2d(y, {1, 1}).view({y.size(0), -1}), 0.5, is_training()));
  }
  std::shared_ptr<Block> layer1, layer2;
  torch::nn::Linear fc;
};

inline torch::nn::Sequential mlp() {
  return torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::ReLU(), torch::nn::Dropout(0.5),
                               torch::nn::Linear(16, 8), torch::nn::GELU(), torch::nn::Linear(8, 4),
                               torch::nn::LogSoftmax(1));
}

/// Words [n, 7] to classes [n, 3]: embedding, two layers of LSTM both ways, the mean over time.
struct BiLstm : torch::nn::Module {
  BiLstm()
      : words(20, 6),
        lstm(torch::nn::LSTMOptions(6, 5).num_layers(2).bidirectional(true).batch_first(true).dropout(0.3)),
        out(10, 3) {
    register_module("words", words);
    register_module("lstm", lstm);
    register_module("out", out);
  }
  at::Tensor forward(const at::Tensor& x) { return out(std::get<0>(lstm->forward(words(x))).mean(1)); }
  torch::nn::Embedding words;
  torch::nn::LSTM lstm;
  torch::nn::Linear out;
};

/// [n, 5, 8] to [n, 5, 8], positions added.
struct Encoder : torch::nn::Module {
  Encoder()
      : encoder(torch::nn::TransformerEncoderOptions(
            torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).activation(torch::kGELU),
            2)) {
    register_module("encoder", encoder);
    positions = register_buffer("positions", torch::randn({5, 1, 8}));
  }
  at::Tensor forward(const at::Tensor& x) { return encoder(x.transpose(0, 1) + positions).transpose(0, 1); }
  torch::nn::TransformerEncoder encoder;
  at::Tensor positions;
};

}  // namespace crumb::testing
