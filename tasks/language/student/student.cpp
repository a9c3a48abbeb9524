#include "tasks/language/student/student.h"

#include <torch/optim/adamw.h>

#include <optional>

#include "base/error.h"
#include "graph/qonnx/quantized_constants.h"
#include "models/decoder.h"
#include "models/encoder_inputs.h"
#include "qat/adapted_network.h"
#include "qat/network.h"
#include "tasks/language/student/adapter_start.h"
#include "tasks/language/student/start_adapters.h"

namespace crumb::tasks {
namespace {

const graph::Graph& beginning_of(const LanguageRequest& request) {
  return request.start.network ? *request.start.network : request.network;
}

bool has_adapter(const graph::Graph& graph) { return !graph::adapter_names(graph).empty(); }

/// Cuts a decoder after its last layer; returns nothing for an encoder.
std::optional<libtorch::CutNetwork> cut(const libtorch::GraphModule& module, const graph::Graph& network,
                                        bool recomputes) {
  if (models::is_encoder(network)) return std::nullopt;
  const std::vector<std::string> layers = models::layer_outputs(network);
  if (layers.empty()) throw Error("the network has no layers of a decoder");
  return libtorch::CutNetwork(module, layers.back(), recomputes ? layers : std::vector<std::string>{});
}

class QuantizedStudent final : public Student {
 public:
  QuantizedStudent(const LanguageRequest& request, bool learns_adapters)
      : adapters_(beginning_of(request), learns_adapters),
        network_(adapters_.trainable(graph::fold_quantized(beginning_of(request))), request.recipe),
        cut_(cut(network_.graph_module(), request.network, request.steps.recomputes)) {
    if (request.steps.recomputes && request.recipe.activations && !request.recipe.activations->is_dynamic())
      throw usage_error(
          "layers are computed again with activations in floats or with scales for tokens, found " +
          request.recipe.activations->to_string());
    if (request.start.network) network_.begin_with(request.start.network->quantized);
  }

  void start(const std::vector<std::vector<at::Tensor>>& samples) override { network_.calibrate(samples); }
  torch::nn::Module& module() override { return network_; }
  void fix_codes() override { network_.fix_codes(); }
  std::vector<torch::optim::OptimizerParamGroup> parameter_groups(
      const LanguageRequest& request) const override {
    return network_.parameter_groups({.learning_rate = request.optimizer.rate,
                                      .weight_decay = 0,
                                      .scale_learning_rate = request.optimizer.scale_rate});
  }
  void advance(double share) override { network_.advance(share); }
  libtorch::CutPass pass(const std::vector<at::Tensor>& inputs, bool learns) override {
    network_.train(learns);
    return {cut_.value(), libtorch::typed_all(inputs), network_.constants_of_now()};
  }
  std::vector<at::Tensor> outputs(const std::vector<at::Tensor>& inputs, bool learns) override {
    network_.train(learns);
    return network_.forward(inputs);
  }
  at::Tensor penalty() const override { return network_.penalty(); }
  graph::Graph freeze() override {
    network_.eval();
    graph::Graph frozen = adapters_.kept(network_.freeze());
    take_adapters(frozen);
    return frozen;
  }
  qat::Network* network() override { return &network_; }

 private:
  /// Takes adapters in the types that they are stored in, so that the network computes what its file does.
  void take_adapters(const graph::Graph& frozen) {
    const torch::NoGradGuard no_gradients;
    const graph::Graph floats = adapters_.trainable(graph::fold_quantized(frozen));
    for (const auto& [name, tensor] : floats.initializers) {
      if (!graph::is_of_adapter(name)) continue;
      const at::Tensor& own = network_.graph_module().constant(name);
      own.copy_(at::tensor(tensor.to_floats()).view(own.sizes()));
    }
  }

  StartAdapters adapters_;
  qat::Network network_;
  std::optional<libtorch::CutNetwork> cut_;
};

/// Returns the base with its adapter.
graph::Graph with_adapter(const Recovery& recovery) {
  if (recovery.start == AdapterStart::kKept) return recovery.base;
  return graph::add_adapter(recovery.base, qat::fresh_adapter(recovery.base, recovery.options),
                            recovery.options.name);
}

class AdaptedStudent final : public Student {
 public:
  explicit AdaptedStudent(const LanguageRequest& request) : request_(request) {
    build(with_adapter(*request.recovery));
  }

  void start(const std::vector<std::vector<at::Tensor>>& samples) override {
    const Adapter started = started_adapter(request_, network_->adapter(), samples);
    if (!start_shapes()) return network_->set(started);
    build(graph::add_adapter(request_.recovery->base, started, request_.recovery->options.name));
  }
  bool start_shapes() const override { return request_.recovery->ranks != AdapterRanks::kEven; }
  torch::nn::Module& module() override { return *network_; }
  void fix_codes() override {}  // they always are
  std::vector<torch::optim::OptimizerParamGroup> parameter_groups(
      const LanguageRequest& request) const override {
    auto options = std::make_unique<torch::optim::AdamWOptions>(request.optimizer.rate);
    options->weight_decay(0);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(network_->parameters(), std::move(options));
    return groups;
  }
  void advance(double) override {}
  libtorch::CutPass pass(const std::vector<at::Tensor>& inputs, bool) override {
    return {cut_->value(), libtorch::typed_all(inputs)};
  }
  std::vector<at::Tensor> outputs(const std::vector<at::Tensor>& inputs, bool) override {
    return network_->forward(inputs);
  }
  at::Tensor penalty() const override { return {}; }
  graph::Graph freeze() override {
    graph::Graph frozen = network_->freeze(request_.recovery->type);
    network_->set(graph::adapter_of(frozen, request_.recovery->options.name));
    return frozen;
  }

 private:
  void build(graph::Graph with_adapter) {
    network_ =
        std::make_unique<qat::AdaptedNetwork>(std::move(with_adapter), request_.recovery->options.name);
    cut_ = std::make_unique<std::optional<libtorch::CutNetwork>>(
        cut(network_->module(), request_.recovery->base, request_.steps.recomputes));
  }

  const LanguageRequest& request_;
  std::unique_ptr<qat::AdaptedNetwork> network_;
  std::unique_ptr<std::optional<libtorch::CutNetwork>> cut_;  ///< of it
};

}  // namespace

std::unique_ptr<Student> student_of(const LanguageRequest& request) {
  if (request.recovery) return std::make_unique<AdaptedStudent>(request);
  return std::make_unique<QuantizedStudent>(request, request.steps.learn_adapters);
}

void check_student(const LanguageRequest& request) {
  if (request.recovery)
    student_of(request);
  else
    const QuantizedStudent student(request,
                                   request.steps.learn_adapters && has_adapter(beginning_of(request)));
}

}  // namespace crumb::tasks
