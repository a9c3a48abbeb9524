#include "tasks/language/language_trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cpu/Utils.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/seconds.h"
#include "libtorch/device.h"
#include "libtorch/peers.h"
#include "qat/network.h"
#include "qat/optimize/short_adamw.h"
#include "qat/optimize/weight_average.h"
#include "tasks/language/kept_run.h"
#include "tasks/language/objectives/objective.h"
#include "tasks/language/request/check_request.h"
#include "tasks/language/request/request_fields.h"
#include "tasks/language/steps/step_parts.h"
#include "tasks/language/student/short_products.h"
#include "tasks/language/student/student.h"
#include "tasks/language/text/sequences.h"
#include "tasks/train/fit.h"

namespace crumb::tasks {
namespace {

/// How many sequences calibrate static ranges of activations, and second moments for an adapter's start.
constexpr std::int64_t kCalibrating = 8;

class Training {
 public:
  Training(const LanguageRequest& request, const LanguageHooks& hooks)
      : request_(request),
        hooks_(hooks),
        device_(libtorch::device_named(request.compute.device)),
        peers_(libtorch::Peers::of_environment()),
        objective_(objective_of(request, hooks)),
        rounds_(objective_->count(), request.steps.seed),
        student_(student_of(request)) {
    if (request.steps.batch < peers_.count())
      throw usage_error("a step's " + std::to_string(request.steps.batch) + " samples are fewer than the " +
                        std::to_string(peers_.count()) + " processes");
    std::error_code none;
    if (!peers_.is_alone() && !request.supervision.teacher.file.empty() &&
        !std::filesystem::exists(request.supervision.teacher.file, none))
      throw usage_error("one process makes the file of what the float network predicts, found " +
                        std::to_string(peers_.count()) + " and no " +
                        quote_text(request.supervision.teacher.file.string()));
  }

  LanguageOutcome run() {
    LanguageOutcome outcome;
    outcome.is_first = peers_.is_first();
    if (peers_.is_first()) outcome.float_measure = objective_->measure_floats();
    objective_->prepare(trained_samples());
    deciding_ = fields_of(request_, peers_.count(), at::get_num_threads()).deciding;
    begin();
    compare_with_peers();
    start_ = now_seconds();
    while (step_ < request_.steps.count) {
      take_step();
      const bool wanted = hooks_.wants_state && hooks_.wants_state();
      if (wanted || stops_) keep();
      if (stops_) throw Interrupted();
    }
    expect_finite();
    outcome.layers = layers_;
    outcome.log = log_;
    for (std::int64_t step = 0; step < step_; ++step) outcome.trained_tokens += tokens_of(samples_of(step));
    outcome.first_measure = first_measure_;
    outcome.middle_measure = middle_measure_;
    if (!peers_.is_first()) return outcome;
    std::optional<qat::WeightAverage::Use> averaged;
    if (average_) averaged.emplace(average_->use());
    outcome.quantized = student_->freeze();
    try {
      outcome.measure = objective_->measure(*student_);
      const bool is_measured = !request_.samples.valid.empty() || !request_.samples.valid_lines.empty();
      if (is_measured && !std::isfinite(outcome.measure))
        throw Error("what training ended in measures no finite number: training diverged");
    } catch (const Interrupted&) {
      averaged.reset();
      keep();  // all steps are done: none of them is lost
      throw;
    }
    return outcome;
  }

 private:
  /// Throws where a parameter is not finite: a loss tells only about the steps before it.
  void expect_finite() const {
    const torch::NoGradGuard no_gradients;
    for (const auto& parameter : student_->module().named_parameters())
      if (!parameter.value().isfinite().all().item<bool>())
        throw Error("behind step " + std::to_string(step_) + " what learns is not finite (" +
                    quote_text(parameter.key()) + "): training diverged");
  }

  /// Checks that all processes do the same, from the same step on.
  void compare_with_peers() const {
    if (peers_.is_alone()) return;
    const auto own =
        std::vector<double>{static_cast<double>(crc32_of(deciding_.dump())), static_cast<double>(step_)};
    const at::Tensor first = at::tensor(own, at::kDouble);
    peers_.give_out({first});
    const double differ = first[0].item<double>() != own[0] || first[1].item<double>() != own[1] ? 1 : 0;
    if (peers_.add_up(differ) > 0)
      throw usage_error(
          "the processes differ in what they train, by which text, or from which step on: all need the same "
          "files, flags and folder");
  }

  Objective::Samples samples_of(std::int64_t step) {
    Objective::Samples samples;
    for (std::int64_t i = 0; i < request_.steps.batch; ++i)
      samples.push_back(rounds_.at(step * request_.steps.batch + i));
    return samples;
  }

  std::int64_t tokens_of(const Objective::Samples& samples) const {
    std::int64_t tokens = 0;
    for (const std::int64_t sample : samples) tokens += objective_->tokens_of(sample);
    return tokens;
  }

  /// Returns the samples that some step takes, ascending.
  Objective::Samples trained_samples() {
    std::set<std::int64_t> taken;
    for (std::int64_t i = 0; i < request_.steps.count * request_.steps.batch; ++i)
      taken.insert(rounds_.at(i));
    return {taken.begin(), taken.end()};
  }

  void begin() {
    std::optional<KeptLanguageRun> kept =
        KeptLanguageRun::open(hooks_.state, deciding_, request_.compute.device);
    if (kept) {
      if (student_->start_shapes()) student_->start(objective_->inputs_of_first(kCalibrating));
      if (request_.steps.scales_alone) student_->fix_codes();
      kept->load(student_->module());
    } else {
      if (request_.recovery) {
        student_->module().to(device_);
        first_measure_ = measured();
      }
      student_->start(objective_->inputs_of_first(kCalibrating));
    }
    gets_harder_ = loses_more_by_design();
    student_->module().to(device_);
    peers_.give_out(student_->module().parameters());
    if (!kept && !request_.recovery) first_measure_ = measured();
    if (!kept && request_.block_wise.passes > 0 && student_->network()) {
      layers_ = objective_->train_layers(*student_->network(), hooks_.news.layer_done);
      peers_.give_out(student_->module().parameters());
    }
    if (!kept && request_.steps.scales_alone) student_->fix_codes();
    // An optimizer's state refers to the parameters that exist now.
    optimizer_ = optimizer_of(student_->parameter_groups(request_));
    rates_ = rates_of(*optimizer_);
    if (request_.optimizer.average > 0) average_.emplace(student_->module(), request_.optimizer.average);
    if (kept) {
      kept->load(*optimizer_);
      if (average_) kept->load(*average_);
      step_ = kept->position().step;
      log_ = kept->position().log;
      layers_ = kept->position().layers;
      first_measure_ = kept->position().first_measure;
      middle_measure_ = kept->position().middle_measure;
      for (const LanguageLine& line : log_) watch(line.loss);
      return;
    }
    const bool began_elsewhere = request_.recovery && begins_elsewhere(request_.recovery->start);
    if (!layers_.empty() || began_elsewhere) middle_measure_ = measured();
    if (!layers_.empty()) keep();
  }

  double measured() {
    return peers_.is_first() ? objective_->measure(*student_) : LanguageOutcome::kNotMeasured;
  }

  std::unique_ptr<torch::optim::Optimizer> optimizer_of(
      std::vector<torch::optim::OptimizerParamGroup> groups) const {
    const torch::optim::AdamWOptions options(request_.optimizer.rate);
    if (request_.optimizer.states == OptimizerStates::kFloat32)
      return std::make_unique<torch::optim::AdamW>(std::move(groups), options);
    const auto type = request_.optimizer.states == OptimizerStates::kInt8 ? qat::MomentType::kInt8
                                                                          : qat::MomentType::kBfloat16;
    return std::make_unique<qat::ShortAdamW>(std::move(groups), options, type, request_.steps.seed);
  }

  /// Returns this process's samples of a step.
  Objective::Samples own_of(const Objective::Samples& samples) const {
    Objective::Samples own;
    for (auto i = static_cast<std::size_t>(peers_.rank()); i < samples.size();
         i += static_cast<std::size_t>(peers_.count()))
      own.push_back(samples[i]);
    return own;
  }

  std::vector<Objective::Samples> parts_of(const Objective::Samples& samples) const {
    std::vector<std::int64_t> lengths;
    for (const std::int64_t sample : samples) lengths.push_back(objective_->tokens_of(sample));
    return parts_of_step(samples, lengths,
                         request_.steps.at_once > 0 ? request_.steps.at_once : request_.steps.batch,
                         part_cost_on(device_.is_cpu()));
  }

  /// Adds up the gradients of all processes' samples.
  void gather_from_peers() const {
    if (peers_.is_alone()) return;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : student_->module().parameters()) {
      if (!parameter.requires_grad()) continue;
      at::Tensor& gradient = parameter.mutable_grad();
      gradient = gradient.defined() ? gradient.contiguous() : at::zeros_like(parameter);
      gradients.push_back(gradient);
    }
    peers_.add_up(gradients);
  }

  void take_step() {
    const double of_highest =
        share_of_rate(request_.optimizer.schedule, step_, request_.steps.count, request_.optimizer.warm_up);
    std::size_t group = 0;
    for (auto& parameters : optimizer_->param_groups())
      parameters.options().set_lr(rates_[group++] * of_highest);
    student_->advance(static_cast<double>(step_) / static_cast<double>(request_.steps.count));
    const Objective::Samples samples = samples_of(step_);
    const double value = taken_step(samples);
    ++step_;
    log_.push_back({.step = step_, .loss = value, .rate = request_.optimizer.rate * of_highest});
    ++steps_here_;
    watch(value);
    if (!hooks_.news.progress || !peers_.is_first()) return;
    hooks_.news.progress({.line = log_.back(),
                          .steps = request_.steps.count,
                          .tokens = tokens_of(samples),
                          .seconds_per_step = (now_seconds() - start_) / static_cast<double>(steps_here_)});
  }

  /// Whether weights are pruned, or widths shrink, while steps are taken.
  bool loses_more_by_design() const {
    const qat::Network* network = student_->network();
    return network && (!network->pruned().empty() || network->learned_widths());
  }

  void watch(double loss) {
    if (gets_harder_) return;
    if (watch_.rises_with(loss) && hooks_.news.loss_rose && peers_.is_first())
      hooks_.news.loss_rose(watch_.rise());
  }

  /// Returns the loss before the step; 0, and learns nothing, where no token counts.
  double taken_step(const Objective::Samples& samples) {
    const double all = objective_->weight_of(samples);
    stops_ = interrupt_requested();
    if (all == 0) return 0;
    optimizer_->zero_grad();
    const ShortProducts short_products(request_.compute.products);
    double value = 0;
    for (const Objective::Samples& part : parts_of(own_of(samples)))
      value += objective_->gather(*student_, part, all);
    value = peers_.add_up(value);
    stops_ = peers_.add_up(interrupt_requested() ? 1 : 0) > 0;  // all, or none: else the others would wait
    if (!std::isfinite(value))
      throw Error("the loss is not finite in step " + std::to_string(step_ + 1) + ": training diverged");
    if (const at::Tensor penalty = student_->penalty();
        peers_.is_first() && penalty.defined() && penalty.requires_grad())
      penalty.backward();
    gather_from_peers();
    torch::nn::utils::clip_grad_norm_(student_->module().parameters(), request_.optimizer.most_gradient);
    optimizer_->step();
    if (average_) average_->update();
    return value;
  }

  void keep() {
    if (hooks_.state.empty() || !peers_.is_first()) return;
    keep_language_run(hooks_.state, deciding_,
                      {.step = step_,
                       .layers = layers_,
                       .log = log_,
                       .first_measure = first_measure_,
                       .middle_measure = middle_measure_},
                      student_->module(), *optimizer_, average_ ? &*average_ : nullptr);
  }

  const LanguageRequest& request_;
  const LanguageHooks& hooks_;
  at::Device device_;
  libtorch::Peers peers_;
  std::unique_ptr<Objective> objective_;
  nlohmann::ordered_json deciding_;  ///< the request's deciding fields
  Rounds rounds_;
  std::unique_ptr<Student> student_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<double> rates_;  ///< those of its groups, the highest
  std::optional<qat::WeightAverage> average_;
  std::int64_t step_ = 0;  ///< the next step
  double first_measure_ = LanguageOutcome::kNotMeasured, middle_measure_ = first_measure_;
  std::vector<LayerLine> layers_;
  std::vector<LanguageLine> log_;
  LossWatch watch_;
  bool gets_harder_ = false;  ///< a rising loss is no fault
  double start_ = 0;          ///< time of the first step here
  std::int64_t steps_here_ = 0;
  bool stops_ = false;  ///< stops after this step, because a person asked for it
};

/// On a GPU operators add up in random order unless they are told not to.
void ask_for_the_same_bits(const LanguageRequest& request) {
  if (!libtorch::device_named(request.compute.device).is_cuda()) return;
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8",
           /*overwrite=*/0);  // read when its first product is computed
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

bool is_amd() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

/// Yes with AMX, and with AVX-512 BF16 on AMD's cores. A Xeon with AVX-512 BF16 but no AMX was half as fast
/// with it as in float32.
bool multiplies_bfloat16_faster() {
  const auto has = at::cpu::get_cpu_capabilities();
  const auto can = [&](const char* what) {
    const auto found = has.find(what);
    return found != has.end() && found->second.toBool();
  };
  return can("amx_bf16") || (can("avx512_bf16") && is_amd());
}

class TorchTrainer final : public LanguageTrainer {
 public:
  Products fast_products(const std::string& device) const override {
    if (!libtorch::device_named(device).is_cpu()) return Products::kTf32;
    return multiplies_bfloat16_faster() ? Products::kBfloat16 : Products::kFloat32;
  }

  void check(const LanguageRequest& request) const override {
    check_request(request);
    check_student(request);
  }

  LanguageOutcome train(const LanguageRequest& request, const LanguageHooks& hooks) override {
    if (request.compute.threads > 0) at::set_num_threads(request.compute.threads);
    check_request(request);
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
