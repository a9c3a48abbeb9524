#include "bench/qat_job.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>

#include "bench/torch/composed.h"
#include "bench/torch/qat_networks.h"
#include "libtorch/capture/capture.h"
#include "libtorch/fake_quantize.h"
#include "qat/attach.h"
#include "qat/network.h"
#include "qat/weights/a2q.h"

namespace crumb::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr qat::Rates kRates{.learning_rate = 1e-4, .weight_decay = 1e-4};

/// The same batch and the same weights for all.
struct Batch {
  at::Tensor x, y;
};

Recipe recipe_of(const std::string& weights, const std::string& activations, const char* more) {
  return parse_recipe("version: 1\nweights: " + weights + "\nactivations: " + activations + "\n" + more,
                      "crumb-bench qat");
}

at::Tensor loss_of(const at::Tensor& scores, const Batch& batch) {
  return torch::nn::functional::cross_entropy(scores, batch.y);
}

void descend(torch::optim::Optimizer& optimizer, const at::Tensor& loss) {
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
}

TrainingStep float_step(const std::shared_ptr<QatNetwork>& network, const Batch& batch) {
  const auto optimizer = std::make_shared<torch::optim::AdamW>(
      network->parameters(),
      torch::optim::AdamWOptions(kRates.learning_rate).weight_decay(kRates.weight_decay));
  return {"float", [=] { descend(*optimizer, loss_of(network->forward(batch.x), batch)); }};
}

TrainingStep attached_step(const std::string& name, const std::shared_ptr<QatNetwork>& network,
                           const Recipe& recipe, const Batch& batch) {
  const auto hooks = std::make_shared<qat::Hooks>(*network, recipe);
  const auto optimizer = std::make_shared<torch::optim::AdamW>(hooks->parameter_groups(kRates));
  return {name, [=] {
            const auto step = hooks->step();
            at::Tensor loss = loss_of(network->forward(batch.x), batch);
            if (recipe.accumulator) loss = loss + hooks->penalty();
            descend(*optimizer, loss);
          }};
}

TrainingStep captured_step(const std::shared_ptr<QatNetwork>& network, const Recipe& recipe,
                           const Batch& batch) {
  const auto captured = std::make_shared<qat::Network>(libtorch::capture(*network, {batch.x}), recipe);
  captured->calibrate({{batch.x}});
  captured->train();
  const auto optimizer = std::make_shared<torch::optim::AdamW>(captured->parameter_groups(kRates));
  return {"captured W4A4",
          [=] { descend(*optimizer, loss_of(captured->forward(batch.x), batch) + captured->penalty()); }};
}

template <class Make>
class Job : public OperatorJob {
 public:
  Job(std::vector<at::Tensor> inputs, at::Tensor grad, Make make)
      : inputs_(std::move(inputs)), grad_(std::move(grad)), make_(std::move(make)) {
    for (at::Tensor& input : inputs_) input = input.detach().clone().requires_grad_();
  }
  double forward() override {
    made_.reset();
    const auto start = Clock::now();
    made_ = make_(inputs_);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  double backward() override {
    const auto start = Clock::now();
    const auto gradients = torch::autograd::grad({made_}, inputs_, {grad_});
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  std::vector<at::Tensor> inputs_;
  at::Tensor grad_, made_;
  Make make_;
};

template <class Make>
std::unique_ptr<OperatorJob> job(const std::vector<at::Tensor>& inputs, const at::Tensor& grad, Make make) {
  return std::make_unique<Job<Make>>(inputs, grad, std::move(make));
}

std::string text_of(at::IntArrayRef sizes) {
  std::string text;
  for (const std::int64_t size : sizes) {
    if (!text.empty()) text += 'x';
    text += std::to_string(size);
  }
  return text;
}

/// Learned scales: one for the tensor, or one for each row.
OperatorCase learned(const std::string& name, const at::Tensor& x, const QuantSpec& spec) {
  const at::Tensor grad = torch::randn_like(x), scale = find_scales(x, spec).scale * 0.5;
  const int lo = spec.number->least_code(spec.range), hi = spec.number->greatest_code(spec.range);
  std::vector<std::int64_t> broadcast(static_cast<std::size_t>(x.dim()), 1);
  if (scale.numel() > 1) broadcast[0] = -1;
  OperatorCase one{.name = name + " " + spec.to_string(), .shape = text_of(x.sizes()), .values = x.numel()};
  one.fused = job({x, scale}, grad,
                  [spec](const auto& in) { return fake_quantize(in[0], in[1], std::nullopt, spec); });
  one.peers.push_back({"LibTorch's operators", job({x, scale}, grad, [=](const auto& in) {
                         return composed_fake_quantize(in[0], in[1].view(broadcast), lo, hi);
                       })});
  const char* own = scale.numel() > 1 ? "_fake_quantize_learnable_per_channel_affine"
                                      : "_fake_quantize_learnable_per_tensor_affine";
  const at::Tensor zero_point = at::zeros({scale.numel()});
  one.peers.push_back({own, job({x, scale.flatten()}, grad, [=](const auto& in) {
                         return learnable_fake_quantize(in[0], in[1], zero_point, lo, hi);
                       })});
  return one;
}

OperatorCase a2q_plus(const at::Tensor& w) {
  const at::Tensor grad = torch::randn_like(w), log2_norm = at::log2(w.abs().sum(1));
  const at::Tensor log2_scale = at::log2(std::get<0>(w.abs().max(1)) / 7);
  const qat::A2qSettings settings{.weight_bits = 4, .accumulator_bits = 16, .input = {0, 15}};
  OperatorCase one{.name = "A2Q+ weights, 4 bits, P = 16", .shape = text_of(w.sizes()), .values = w.numel()};
  one.fused = job({w, log2_norm, log2_scale}, grad, [settings](const auto& in) {
    return a2q_values(in[0], in[1], in[2], {}, settings).values;
  });
  one.peers.push_back(
      {"LibTorch's operators", job({w, log2_norm, log2_scale}, grad, [settings](const auto& in) {
         return composed_a2q_plus(in[0], in[1], in[2], settings.weight_bits, settings.budget());
       })});
  return one;
}

}  // namespace

std::vector<std::string> qat_networks() { return {"cnn", "transformer"}; }

std::vector<TrainingStep> make_training_steps(const std::string& name, const std::string& weights) {
  std::vector<std::shared_ptr<QatNetwork>> networks;
  for (const bool quantizes : {false, false, true, true}) {
    torch::manual_seed(1);
    networks.push_back(make_qat_network(name, quantizes));
    networks.back()->train();
  }
  const Batch batch{networks[0]->example(), networks[0]->labels()};
  const std::string activations = networks[0]->activations();
  const Recipe plain = recipe_of(weights, activations, "inputs: int8:tensor\n");
  std::vector<TrainingStep> steps;
  steps.push_back(float_step(networks[0], batch));
  steps.push_back(attached_step("attached W4A4", networks[2], plain, batch));
  steps.push_back(attached_step("attached W4A4, A2Q+", networks[3],
                                recipe_of(weights, activations, "accumulator: 16:a2q_plus\n"), batch));
  steps.push_back(captured_step(networks[1], plain, batch));
  return steps;
}

std::vector<OperatorCase> make_operator_cases(const std::string& weights) {
  torch::manual_seed(2);
  const QuantSpec spec = QuantSpec::parse(weights);
  const bool integers =
      spec.number->grid == Grid::kInteger && spec.zero == ZeroPoint::kNone &&
      (spec.granularity == Granularity::kTensor || spec.granularity == Granularity::kChannel);
  std::vector<OperatorCase> cases;
  if (integers) {
    cases.push_back(learned("weights", torch::randn({1536, 384}) * 0.05, spec));
    cases.push_back(learned("weights", torch::randn({128, 128, 3, 3}) * 0.05, spec));
  }
  const QuantSpec activations = QuantSpec::parse_activations("uint4:tensor");
  cases.push_back(learned("activations", torch::relu(torch::randn({32, 64, 32, 32})), activations));
  cases.push_back(learned("activations", torch::relu(torch::randn({8, 128, 1536})), activations));
  cases.push_back(a2q_plus(torch::randn({1536, 384}) * 0.05));
  return cases;
}

}  // namespace crumb::bench
