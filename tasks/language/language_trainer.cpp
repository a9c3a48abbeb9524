#include "tasks/language/language_trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cpu/Utils.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <numbers>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/seconds.h"
#include "libtorch/device.h"
#include "tasks/language/block_wise.h"
#include "tasks/language/decoder_inputs.h"
#include "tasks/language/float_network.h"
#include "tasks/language/kept_run.h"
#include "tasks/language/kept_teacher.h"
#include "tasks/language/language_loss.h"
#include "tasks/language/sequences.h"
#include "tasks/language/short_products.h"
#include "tasks/language/student.h"

namespace crumb::tasks {
namespace {

/// Sequences by which static ranges of activations are found, and second moments where an adapter begins.
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

struct Batch {
  std::vector<std::int64_t> sequences;
  LanguageText text;
};

/// What a file says of a batch.
class KeptAims final : public Aims {
 public:
  KeptAims(const KeptTeacher& teacher, const std::vector<std::int64_t>& sequences)
      : teacher_(teacher), sequences_(sequences) {}
  at::Tensor divergence(const at::Tensor& logits, const at::Tensor& places) const override {
    return teacher_.divergence(logits, sequences_, places);
  }

 private:
  const KeptTeacher& teacher_;
  const std::vector<std::int64_t>& sequences_;
};

class Training {
 public:
  Training(const LanguageRequest& request, const LanguageHooks& hooks)
      : request_(request),
        hooks_(hooks),
        device_(libtorch::device_named(request.device)),
        sequences_(request.text, request.first, request.length, "the text to train by"),
        rounds_(sequences_.count(), request.seed),
        student_(student_of(request)) {
    if (!request.valid.empty())
      valid_.emplace(request.valid, request.first, request.length, "the text to measure by");
  }

  LanguageOutcome run() {
    LanguageOutcome outcome;
    const bool is_kept = !request_.teacher.file.empty();
    if (is_kept && request_.loss != LanguageLoss::kDivergence)
      throw usage_error("a file of what the float network predicts is for the loss kl, found " +
                        std::string(name_of(request_.loss)));
    if (request_.has_floats && (request_.loss != LanguageLoss::kNextToken || valid_))
      teacher_.emplace(request_.network, device_);
    if (valid_ && teacher_)
      outcome.float_perplexity = perplexity([&](const auto& inputs) { return teacher_->pass(inputs); });
    if (is_kept)
      kept_teacher_.emplace(request_, sequences_, trained_sequences(), teacher_ ? &*teacher_ : nullptr,
                            hooks_.predicted);
    if (is_kept || request_.loss == LanguageLoss::kNextToken) teacher_.reset();
    begin();
    start_ = now_seconds();
    while (step_ < request_.steps) {
      take_step();
      const bool wanted = hooks_.wants_state && hooks_.wants_state();
      if (wanted || interrupt_requested()) keep();
      check_interrupt();
    }
    outcome.layers = layers_;
    outcome.log = log_;
    outcome.trained_tokens = step_ * request_.batch * request_.length;
    outcome.first_perplexity = first_perplexity_;
    outcome.middle_perplexity = middle_perplexity_;
    outcome.quantized = student_->freeze();
    outcome.perplexity = own_perplexity();
    return outcome;
  }

 private:
  /// Those that some step takes, ascending.
  std::vector<std::int64_t> trained_sequences() {
    std::set<std::int64_t> taken;
    for (std::int64_t i = 0; i < request_.steps * request_.batch; ++i) taken.insert(rounds_.at(i));
    return {taken.begin(), taken.end()};
  }

  std::vector<std::vector<at::Tensor>> samples() const {
    std::vector<std::vector<at::Tensor>> found;
    for (std::int64_t i = 0; i < std::min(kCalibrating, sequences_.count()); ++i)
      found.push_back(decoder_tensors(request_.network, sequence_of(sequences_, i), 1));
    return found;
  }

  std::vector<at::Tensor> inputs_of(const LanguageText& sequences, std::int64_t batch) const {
    return decoder_tensors(request_.network, sequences, batch, device_);
  }

  void begin() {
    std::optional<KeptLanguageRun> kept = KeptLanguageRun::open(hooks_.state, request_);
    if (kept) {
      kept->load(student_->module());
    } else {
      if (request_.recovery) {
        student_->module().to(device_);
        first_perplexity_ = own_perplexity();
      }
      student_->start(samples());
    }
    student_->module().to(device_);
    if (!kept && !request_.recovery) first_perplexity_ = own_perplexity();
    // A state of the optimizer lies on the parameters that are there.
    optimizer_.emplace(student_->parameter_groups(request_.rate), torch::optim::AdamWOptions(request_.rate));
    if (kept) {
      kept->load(*optimizer_);
      step_ = kept->position().step;
      log_ = kept->position().log;
      layers_ = kept->position().layers;
      first_perplexity_ = kept->position().first_perplexity;
      middle_perplexity_ = kept->position().middle_perplexity;
      return;
    }
    if (request_.block_wise.passes > 0 && student_->network())
      layers_ = train_block_wise(request_, sequences_, *student_->network(), hooks_.layer_done);
    const bool began_elsewhere = request_.recovery && request_.recovery->start != AdapterStart::kZero;
    if (!layers_.empty() || began_elsewhere) middle_perplexity_ = own_perplexity();
  }

  /// Of the highest rate, for the step that comes.
  double share() const {
    if (step_ < request_.warm_up)
      return static_cast<double>(step_ + 1) / static_cast<double>(request_.warm_up);
    const auto done = static_cast<double>(step_ - request_.warm_up);
    const auto all = static_cast<double>(std::max<std::int64_t>(request_.steps - request_.warm_up, 1));
    return (1 + std::cos(std::numbers::pi * done / all)) / 2;
  }

  void take_step() {
    const double rate = request_.rate * share();
    for (auto& group : optimizer_->param_groups()) group.options().set_lr(rate);
    student_->advance(static_cast<double>(step_) / static_cast<double>(request_.steps));
    const double value = taken_step();
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
  double taken_step() {
    const std::int64_t at_once = request_.at_once > 0 ? request_.at_once : request_.batch;
    std::vector<Batch> taken;
    double places = 0;
    for (std::int64_t begin = 0; begin < request_.batch; begin += at_once) {
      Batch& batch = taken.emplace_back();
      for (std::int64_t i = begin; i < std::min(begin + at_once, request_.batch); ++i) {
        batch.sequences.push_back(rounds_.at(step_ * request_.batch + i));
        sequences_.append(batch.sequences.back(), batch.text);
      }
      places += static_cast<double>(predicting(batch.text).numel());
    }
    if (places == 0) return 0;
    optimizer_->zero_grad();
    const ShortProducts short_products(request_.products);
    double value = 0;
    for (const Batch& batch : taken) value += gathered(batch, places);
    if (!std::isfinite(value))
      throw Error("the loss is not finite in step " + std::to_string(step_ + 1) + ": training diverged");
    if (const at::Tensor penalty = student_->penalty(); penalty.defined() && penalty.requires_grad())
      penalty.backward();
    torch::nn::utils::clip_grad_norm_(student_->module().parameters(), request_.most_gradient);
    optimizer_->step();
    return value;
  }

  /// The gradients of so many sequences, and their share of the step's loss.
  double gathered(const Batch& batch, double all_places) {
    const std::vector<at::Tensor> inputs =
        inputs_of(batch.text, static_cast<std::int64_t>(batch.sequences.size()));
    libtorch::CutPass pass = student_->pass(inputs, true);
    std::unique_ptr<Aims> aims;
    if (kept_teacher_) aims = std::make_unique<KeptAims>(*kept_teacher_, batch.sequences);
    if (teacher_) aims = std::make_unique<LiveAims>(teacher_->pass(inputs), request_.temperature);
    const double loss =
        gather_language_loss(pass, aims.get(), {.loss = request_.loss, .all_places = all_places},
                             inputs.at(0), predicting(batch.text).to(device_));
    pass.backward();
    return loss;
  }

  void keep() {
    if (hooks_.state.empty()) return;
    keep_language_run(hooks_.state, request_,
                      {.step = step_,
                       .layers = layers_,
                       .log = log_,
                       .first_perplexity = first_perplexity_,
                       .middle_perplexity = middle_perplexity_},
                      student_->module(), *optimizer_);
  }

  double own_perplexity() {
    if (!valid_) return LanguageOutcome::kNotMeasured;
    return perplexity([&](const auto& inputs) { return student_->pass(inputs, false); });
  }

  template <class Pass>
  double perplexity(const Pass& pass_of) const {
    const torch::NoGradGuard no_gradients;
    double sum = 0, count = 0;
    for (std::int64_t i = 0; i < valid_->count(); ++i) {
      check_interrupt();
      const LanguageText sequence = sequence_of(*valid_, i);
      const at::Tensor places = predicting(sequence).to(device_);
      if (places.numel() == 0) continue;
      const std::vector<at::Tensor> inputs = inputs_of(sequence, 1);
      sum += summed_next_token_loss(pass_of(inputs), inputs.at(0), places);
      count += static_cast<double>(places.numel());
    }
    return count > 0 ? std::exp(sum / count) : LanguageOutcome::kNotMeasured;
  }

  const LanguageRequest& request_;
  const LanguageHooks& hooks_;
  at::Device device_;
  Sequences sequences_;
  std::optional<Sequences> valid_;
  Rounds rounds_;
  std::unique_ptr<Student> student_;
  std::optional<FloatDecoder> teacher_;
  std::optional<KeptTeacher> kept_teacher_;
  std::optional<torch::optim::AdamW> optimizer_;
  std::int64_t step_ = 0;  ///< that comes
  double first_perplexity_ = LanguageOutcome::kNotMeasured, middle_perplexity_ = first_perplexity_;
  std::vector<LayerLine> layers_;
  std::vector<LanguageLine> log_;
  double start_ = 0;  ///< of the first step here
  std::int64_t steps_here_ = 0;
};

/// Throws usage Error where the device does not multiply so.
void check_products(const LanguageRequest& request) {
  const bool is_cpu = libtorch::device_named(request.device).is_cpu();
  if (request.products == (is_cpu ? Products::kTf32 : Products::kBfloat16))
    throw usage_error("products of " + std::string(name_of(request.products)) + " are not for the device " +
                      quote_text(request.device) + ": expected f32 or " + (is_cpu ? "bf16" : "tf32"));
}

/// On a GPU operators add up in an order of chance unless they are asked not to.
void ask_for_the_same_bits(const LanguageRequest& request) {
  if (!libtorch::device_named(request.device).is_cuda()) return;
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8",
           /*overwrite=*/0);  // read where its first product is computed
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

class TorchTrainer final : public LanguageTrainer {
 public:
  Products fast_products(const std::string& device) const override {
    if (!libtorch::device_named(device).is_cpu()) return Products::kTf32;
    const auto has = at::cpu::get_cpu_capabilities();
    const auto found = has.find("avx512_bf16");
    return found != has.end() && found->second.toBool() ? Products::kBfloat16 : Products::kFloat32;
  }

  LanguageOutcome train(const LanguageRequest& request, const LanguageHooks& hooks) override {
    if (request.threads > 0) at::set_num_threads(request.threads);
    check_products(request);
    ask_for_the_same_bits(request);
    return Training(request, hooks).run();
  }
};

}  // namespace

LanguageTrainer& language_trainer() {
  static TorchTrainer trainer;
  return trainer;
}

}  // namespace crumb::tasks
