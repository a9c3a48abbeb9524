#include "bench/torch/qat_networks.h"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "base/error.h"

namespace crumb::bench {
namespace {

constexpr std::int64_t kClasses = 10;

/// Two convolutions around a shortcut; no batch norms, so that all variants compute the same operators.
struct Block : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr}, shortcut{nullptr};
  Block(std::int64_t from, std::int64_t to) {
    const std::int64_t stride = from == to ? 1 : 2;
    const auto conv = [](std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t step) {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, size).stride(step).padding(size / 2));
    };
    conv1 = register_module("conv1", conv(from, to, 3, stride));
    conv2 = register_module("conv2", conv(to, to, 3, 1));
    if (from != to) shortcut = register_module("shortcut", conv(from, to, 1, stride));
  }
};

class Cnn : public QatNetwork {
 public:
  explicit Cnn(bool quantizes) {
    stem_ = register_module("stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 3).padding(1)));
    input_ = place(quantizes, "int8:tensor");
    std::int64_t channels = 64;
    for (const std::int64_t to : {64, 64, 128, 128}) {
      blocks_.push_back(
          register_module("block" + std::to_string(blocks_.size()), std::make_shared<Block>(channels, to)));
      inputs_.push_back(place(quantizes, "uint4:tensor"));
      inner_.push_back(place(quantizes, "uint4:tensor"));
      channels = to;
    }
    fc_ = register_module("fc", torch::nn::Linear(channels, kClasses));
  }

  at::Tensor forward(const at::Tensor& pixels) override {
    at::Tensor x = torch::relu(stem_(at_place(input_, pixels)));
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      Block& block = *blocks_[i];
      x = at_place(inputs_[i], x);
      const at::Tensor inner = at_place(inner_[i], torch::relu(block.conv1(x)));
      x = torch::relu(block.conv2(inner) + (block.shortcut ? block.shortcut(x) : x));
    }
    return fc_(x.mean({2, 3}));
  }
  at::Tensor example() const override { return torch::randn({32, 3, 32, 32}); }
  at::Tensor labels() const override { return torch::randint(kClasses, {32}, at::kLong); }
  std::string activations() const override { return "uint4:tensor"; }

 private:
  torch::nn::Conv2d stem_{nullptr};
  torch::nn::Linear fc_{nullptr};
  std::vector<std::shared_ptr<Block>> blocks_;
  std::size_t input_ = 0;
  std::vector<std::size_t> inputs_, inner_;
};

class Transformer : public QatNetwork {
 public:
  explicit Transformer(bool quantizes) {
    norm1_ = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    norm2_ = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    qkv_ = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
    out_ = register_module("out", torch::nn::Linear(kWidth, kWidth));
    up_ = register_module("up", torch::nn::Linear(kWidth, 4 * kWidth));
    down_ = register_module("down", torch::nn::Linear(4 * kWidth, kWidth));
    head_ = register_module("head", torch::nn::Linear(kWidth, kClasses));
    for (std::size_t& index : places_) index = place(quantizes, "int4:tensor");
  }

  at::Tensor forward(const at::Tensor& tokens) override {
    at::Tensor x = tokens + out_(at_place(places_[1], attention(at_place(places_[0], norm1_(tokens)))));
    const at::Tensor inner = at::gelu(up_(at_place(places_[2], norm2_(x))));
    x = x + down_(at_place(places_[3], inner));
    return head_(x.mean(1));
  }
  at::Tensor example() const override { return torch::randn({kBatch, kTokens, kWidth}); }
  at::Tensor labels() const override { return torch::randint(kClasses, {kBatch}, at::kLong); }
  std::string activations() const override { return "int4:tensor"; }

 private:
  static constexpr std::int64_t kBatch = 8, kTokens = 128, kWidth = 384, kHeads = 6;

  at::Tensor attention(const at::Tensor& x) {
    const auto parts =
        qkv_(x).view({x.size(0), kTokens, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const at::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return mixed.transpose(1, 2).reshape({x.size(0), kTokens, kWidth});
  }

  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  torch::nn::Linear qkv_{nullptr}, out_{nullptr}, up_{nullptr}, down_{nullptr}, head_{nullptr};
  std::size_t places_[4] = {};
};

}  // namespace

std::size_t QatNetwork::place(bool filled, const char* spec) {
  places_.emplace_back();
  if (filled) {
    places_.back() = register_module("place" + std::to_string(places_.size()),
                                     std::make_shared<qat::QuantActivationImpl>(std::string(spec), 1));
  }
  return places_.size() - 1;
}

at::Tensor QatNetwork::at_place(std::size_t index, const at::Tensor& x) {
  return places_[index] ? places_[index]->forward(x) : x;
}

std::shared_ptr<QatNetwork> make_qat_network(const std::string& name, bool quantizes_activations) {
  if (name == "cnn") return std::make_shared<Cnn>(quantizes_activations);
  if (name == "transformer") return std::make_shared<Transformer>(quantizes_activations);
  throw Error("qat: there is no network " + name);
}

}  // namespace crumb::bench
