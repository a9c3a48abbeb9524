#include "qat/weights/weight_slots.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <algorithm>

namespace crumb::qat {
namespace {

class Slots {
 public:
  explicit Slots(std::vector<WeightSlot>& found) : found_(found) {}

  void visit(const std::string& name, torch::nn::Module& module) {
    layer_ = name;
    module_ = &module;
    linear<torch::nn::LinearImpl>();
    linear<torch::nn::BilinearImpl>();
    convolution<torch::nn::Conv1dImpl>("Conv", 0);
    convolution<torch::nn::Conv2dImpl>("Conv", 0);
    convolution<torch::nn::Conv3dImpl>("Conv", 0);
    convolution<torch::nn::ConvTranspose1dImpl>("ConvTranspose", 1);
    convolution<torch::nn::ConvTranspose2dImpl>("ConvTranspose", 1);
    convolution<torch::nn::ConvTranspose3dImpl>("ConvTranspose", 1);
    if (auto* table = module.as<torch::nn::EmbeddingImpl>()) add("weight", "Gather", 0, 1, &table->weight);
    recurrent<torch::nn::LSTMImpl>();
    recurrent<torch::nn::GRUImpl>();
    recurrent<torch::nn::RNNImpl>();
    cell<torch::nn::LSTMCellImpl>();
    cell<torch::nn::GRUCellImpl>();
    cell<torch::nn::RNNCellImpl>();
    if (auto* attention = module.as<torch::nn::MultiheadAttentionImpl>()) {
      add("in_proj_weight", "Gemm", 0, 1, &attention->in_proj_weight);
      add("q_proj_weight", "Gemm", 0, 1, &attention->q_proj_weight);
      add("k_proj_weight", "Gemm", 0, 1, &attention->k_proj_weight);
      add("v_proj_weight", "Gemm", 0, 1, &attention->v_proj_weight);
    }
  }

 private:
  void add(const std::string& key, const char* op, std::int64_t axis, std::int64_t groups,
           at::Tensor* member) {
    add(key, op, axis, groups, [member](const at::Tensor& tensor) { *member = tensor; });
  }

  void add(const std::string& key, const char* op, std::int64_t axis, std::int64_t groups,
           std::function<void(const at::Tensor&)> put) {
    const auto own = module_->named_parameters(/*recurse=*/false);
    const at::Tensor* latent = own.find(key);
    if (!latent || !latent->defined()) return;
    found_.push_back({.name = layer_.empty() ? key : layer_ + "." + key,
                      .layer = layer_,
                      .op = op,
                      .output_axis = axis,
                      .groups = groups,
                      .latent = *latent,
                      .put = std::move(put)});
  }

  template <class Module>
  void linear() {
    if (auto* module = module_->as<Module>()) add("weight", "Gemm", 0, 1, &module->weight);
  }

  template <class Module>
  void convolution(const char* op, std::int64_t axis) {
    if (auto* module = module_->as<Module>())
      add("weight", op, axis, module->options.groups(), &module->weight);
  }

  template <class Module>
  void cell() {
    auto* module = module_->as<Module>();
    if (!module) return;
    add("weight_ih", "Gemm", 0, 1, &module->weight_ih);
    add("weight_hh", "Gemm", 0, 1, &module->weight_hh);
  }

  /// forward() reads a list of the parameters, in the order of their names.
  template <class Module>
  void recurrent() {
    struct Access : Module {
      static std::vector<at::Tensor>& weights(Module& module) { return module.*(&Access::flat_weights_); }
      static const std::vector<std::string>& names(Module& module) {
        return module.*(&Access::flat_weights_names_);
      }
    };
    auto* module = module_->as<Module>();
    if (!module) return;
    const std::vector<std::string>& names = Access::names(*module);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!names[i].starts_with("weight")) continue;
      add(names[i], "Gemm", 0, 1,
          [module, i](const at::Tensor& tensor) { Access::weights(*module)[i] = tensor; });
    }
  }

  std::vector<WeightSlot>& found_;
  std::string layer_;
  torch::nn::Module* module_ = nullptr;
};

}  // namespace

std::vector<WeightSlot> weight_slots(torch::nn::Module& root) {
  std::vector<WeightSlot> found;
  Slots slots(found);
  slots.visit("", root);
  for (const auto& child : root.named_modules("", /*include_self=*/false))
    slots.visit(child.key(), *child.value());
  return found;
}

}  // namespace crumb::qat
