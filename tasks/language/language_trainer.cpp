#include "tasks/language/language_trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cpu/Utils.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <cmath>
#include <numbers>
#include <optional>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/seconds.h"
#include "qat/distillation.h"
#include "qat/network.h"
#include "tasks/language/block_wise.h"
#include "tasks/language/decoder_inputs.h"
#include "tasks/language/float_network.h"
#include "tasks/language/kept_run.h"
#include "tasks/language/sequences.h"
#include "tasks/language/short_products.h"

namespace crumb::tasks {
namespace {

/// Sequences by which static ranges of activations are found.
constexpr std::int64_t kCalibrating = 8;

LanguageText sequence_of(const Sequences& sequences, std::int64_t sequence) {
  LanguageText text;
  sequences.append(sequence, text);
  return text;
}

/// The places, in all rows one after the other, that predict a token that counts: those before.
at::Tensor predicting(const LanguageText& text) {
  std::vector<std::int64_t> places;
  for (std::size_t i = 1; i < text.counts.size(); ++i)
    if (text.counts[i] != 0) places.push_back(static_cast<std::int64_t>(i) - 1);
  return at::tensor(places, at::kLong);
}

/// [batch, length, classes] at these places: [places, classes].
at::Tensor rows_at(const at::Tensor& logits, const at::Tensor& places) {
  return logits.flatten(0, 1).index_select(0, places);
}

/// Mean over the places, nats.
at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& ids, const at::Tensor& places) {
  return at::cross_entropy_loss(rows_at(logits, places), ids.flatten().index_select(0, places + 1));
}

class Training {
 public:
  Training(const LanguageRequest& request, const LanguageHooks& hooks)
      : request_(request),
        hooks_(hooks),
        sequences_(request.text, request.first, request.length, "the text to train by"),
        rounds_(sequences_.count(), request.seed),
        network_(request.network, request.recipe) {
    if (!request.valid.empty())
      valid_.emplace(request.valid, request.first, request.length, "the text to measure by");
  }

  LanguageOutcome run() {
    LanguageOutcome outcome;
    std::optional<FloatNetwork> teacher(request_.network);
    if (valid_)
      outcome.float_perplexity = perplexity([&](const auto& inputs) { return teacher->output(inputs); });
    if (request_.teacher == Teacher::kNone) teacher.reset();
    begin();
    if (step_ == 0) {
      first_perplexity_ = own_perplexity();
      if (request_.block_wise.passes > 0) {
        layers_ = train_block_wise(request_, sequences_, network_, hooks_.layer_done);
        middle_perplexity_ = own_perplexity();
      }
    }
    start_ = now_seconds();
    while (step_ < request_.steps) {
      take_step(teacher ? &*teacher : nullptr);
      const bool wanted = hooks_.wants_state && hooks_.wants_state();
      if (wanted || interrupt_requested()) keep();
      check_interrupt();
    }
    outcome.layers = layers_;
    outcome.log = log_;
    outcome.trained_tokens = step_ * request_.batch * request_.length;
    outcome.first_perplexity = first_perplexity_;
    outcome.middle_perplexity = middle_perplexity_;
    outcome.perplexity = own_perplexity();
    network_.eval();
    outcome.quantized = network_.freeze();
    return outcome;
  }

 private:
  void begin() {
    std::optional<KeptLanguageRun> kept = KeptLanguageRun::open(hooks_.state, request_);
    if (kept) {
      kept->load(network_);
    } else {
      std::vector<std::vector<at::Tensor>> samples;
      for (std::int64_t i = 0; i < std::min(kCalibrating, sequences_.count()); ++i)
        samples.push_back(decoder_tensors(request_.network, sequence_of(sequences_, i), 1));
      network_.calibrate(samples);
    }
    // Decay pulls weights to zero, where the coarsest grids have no code.
    optimizer_.emplace(network_.parameter_groups({.learning_rate = request_.rate, .weight_decay = 0}),
                       torch::optim::AdamWOptions(request_.rate));
    if (!kept) return;
    kept->load(*optimizer_);
    step_ = kept->position().step;
    log_ = kept->position().log;
    layers_ = kept->position().layers;
    first_perplexity_ = kept->position().first_perplexity;
    middle_perplexity_ = kept->position().middle_perplexity;
  }

  /// Of the highest rate, for the step that comes.
  double share() const {
    if (step_ < request_.warm_up)
      return static_cast<double>(step_ + 1) / static_cast<double>(request_.warm_up);
    const auto done = static_cast<double>(step_ - request_.warm_up);
    const auto all = static_cast<double>(std::max<std::int64_t>(request_.steps - request_.warm_up, 1));
    return (1 + std::cos(std::numbers::pi * done / all)) / 2;
  }

  void take_step(const FloatNetwork* teacher) {
    const double rate = request_.rate * share();
    for (auto& group : optimizer_->param_groups()) group.options().set_lr(rate);
    network_.train();
    network_.advance(static_cast<double>(step_) / static_cast<double>(request_.steps));
    LanguageText taken;
    for (std::int64_t i = 0; i < request_.batch; ++i)
      sequences_.append(rounds_.at(step_ * request_.batch + i), taken);
    const std::vector<at::Tensor> inputs = decoder_tensors(request_.network, taken, request_.batch);
    const double value = taken_step(inputs, predicting(taken), teacher);
    ++step_;
    log_.push_back({.step = step_, .loss = value, .rate = rate});
    ++steps_here_;
    if (!hooks_.progress) return;
    hooks_.progress({.line = log_.back(),
                     .steps = request_.steps,
                     .tokens = request_.batch * request_.length,
                     .seconds_per_step = (now_seconds() - start_) / static_cast<double>(steps_here_)});
  }

  /// Gives the loss before it; 0, and nothing is learned, where no token counts.
  double taken_step(const std::vector<at::Tensor>& inputs, const at::Tensor& places,
                    const FloatNetwork* teacher) {
    if (places.numel() == 0) return 0;
    const ShortProducts short_products(request_.products);
    const at::Tensor logits = network_.forward(inputs).at(0);
    const at::Tensor loss =
        teacher ? qat::distillation_loss(rows_at(logits, places), rows_at(teacher->output(inputs), places),
                                         request_.temperature)
                : next_token_loss(logits, inputs.at(0), places);
    const double value = loss.item<double>();
    if (!std::isfinite(value))
      throw Error("the loss is not finite in step " + std::to_string(step_ + 1) + ": training diverged");
    optimizer_->zero_grad();
    (loss + network_.penalty()).backward();
    torch::nn::utils::clip_grad_norm_(network_.parameters(), request_.most_gradient);
    optimizer_->step();
    return value;
  }

  void keep() {
    if (hooks_.state.empty()) return;
    keep_language_run(hooks_.state, request_,
                      {.step = step_,
                       .layers = layers_,
                       .log = log_,
                       .first_perplexity = first_perplexity_,
                       .middle_perplexity = middle_perplexity_},
                      network_, *optimizer_);
  }

  double own_perplexity() {
    if (!valid_) return LanguageOutcome::kNotMeasured;
    network_.eval();
    return perplexity([&](const auto& inputs) { return network_.forward(inputs).at(0); });
  }

  template <class Logits>
  double perplexity(const Logits& logits) const {
    const torch::NoGradGuard no_gradients;
    double sum = 0, count = 0;
    for (std::int64_t i = 0; i < valid_->count(); ++i) {
      check_interrupt();
      const LanguageText sequence = sequence_of(*valid_, i);
      const at::Tensor places = predicting(sequence);
      if (places.numel() == 0) continue;
      const std::vector<at::Tensor> inputs = decoder_tensors(request_.network, sequence, 1);
      const auto weight = static_cast<double>(places.numel());
      sum += weight * next_token_loss(logits(inputs), inputs.at(0), places).template item<double>();
      count += weight;
    }
    return count > 0 ? std::exp(sum / count) : LanguageOutcome::kNotMeasured;
  }

  const LanguageRequest& request_;
  const LanguageHooks& hooks_;
  Sequences sequences_;
  std::optional<Sequences> valid_;
  Rounds rounds_;
  qat::Network network_;
  std::optional<torch::optim::AdamW> optimizer_;
  std::int64_t step_ = 0;  ///< that comes
  double first_perplexity_ = LanguageOutcome::kNotMeasured, middle_perplexity_ = first_perplexity_;
  std::vector<LayerLine> layers_;
  std::vector<LanguageLine> log_;
  double start_ = 0;  ///< of the first step here
  std::int64_t steps_here_ = 0;
};

class TorchTrainer final : public LanguageTrainer {
 public:
  Products fast_products() const override {
    const auto has = at::cpu::get_cpu_capabilities();
    const auto found = has.find("avx512_bf16");
    return found != has.end() && found->second.toBool() ? Products::kBfloat16 : Products::kFloat32;
  }

  LanguageOutcome train(const LanguageRequest& request, const LanguageHooks& hooks) override {
    if (request.threads > 0) at::set_num_threads(request.threads);
    return Training(request, hooks).run();
  }
};

}  // namespace

LanguageTrainer& language_trainer() {
  static TorchTrainer trainer;
  return trainer;
}

}  // namespace crumb::tasks
