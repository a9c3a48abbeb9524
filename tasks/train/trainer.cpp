#include "tasks/train/trainer.h"

#include <ATen/Parallel.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/checksum.h"
#include "base/files/interrupt.h"
#include "graph/datatypes.h"
#include "graph/passes/passes.h"
#include "libtorch/capture/capture.h"
#include "libtorch/execute/typed_tensor.h"
#include "qat/network.h"
#include "tasks/own_task.h"
#include "tasks/task.h"
#include "tasks/train/ends.h"
#include "tasks/train/fit.h"
#include "tasks/train/float_results.h"
#include "tasks/train/request_json.h"
#include "tasks/train/state.h"
#include "tasks/train/wraparound.h"

namespace crumb::tasks {
namespace {

constexpr std::int64_t kCalibrationBatches = 8;

/// LibTorch's tracer and the calibrating engine exist once in the process.
std::mutex& capture_mutex() {
  static std::mutex mutex;
  return mutex;
}

FloatResults& float_results() {
  static FloatResults results;
  return results;
}

/// Makes AdamW's groups for a float network: decay for parameters that multiply.
std::unique_ptr<torch::optim::AdamW> float_optimizer(torch::nn::Module& module, const Pace& pace) {
  std::vector<at::Tensor> decayed, others;
  for (const at::Tensor& parameter : module.parameters()) {
    (parameter.dim() >= 2 ? decayed : others).push_back(parameter);
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  const auto add = [&](std::vector<at::Tensor> parameters, double decay) {
    auto options = std::make_unique<torch::optim::AdamWOptions>(pace.rate);
    options->weight_decay(decay);
    groups.emplace_back(std::move(parameters), std::move(options));
  };
  add(std::move(decayed), pace.decay);
  add(std::move(others), 0);
  return std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions(pace.rate));
}

class Run {
 public:
  Run(const TrainRequest& request, const TrainHooks& hooks)
      : request_(request),
        hooks_(hooks),
        task_(request.own ? own_task(*request.own)
                          : make_task(request.task, request.network, request.data, request.seed,
                                      request.fixed_point_input)) {
    for (Pace* pace : {&task_.float_pace, &task_.quantized_pace}) {
      if (request.batch > 0) pace->batch = request.batch;
    }
    if (request.rate > 0) task_.quantized_pace.rate = request.rate;
    if (request.epochs >= 0) task_.quantized_pace.epochs = request.epochs;
    if (request.float_epochs >= 0) task_.float_pace.epochs = request.float_epochs;
    float_steps_ = task_.float_pace.epochs * steps_of(task_, task_.float_pace);
    if (!request.float_only)
      quantized_steps_ = task_.quantized_pace.epochs * steps_of(task_, task_.quantized_pace);
    if (!hooks.state.empty()) {
      kept_.emplace(hooks.state);
      kept_->check(deciding_json());
      state_ = kept_->state();
      if (state_.phase == kLongerPhase) {
        put_tensors(*task_.module, kept_->start());
      } else {
        kept_->load_float(*task_.module);
      }
    }
    state_.request = deciding_json().dump();
  }

  TrainOutcome run() {
    if (request_.float_only) return run_float_only();
    if (state_.phase == kFloatPhase || hooks_.check) check_network();
    if (state_.phase == kFloatPhase) run_float();
    for (const auto& parameter : task_.module->named_parameters()) {
      outcome_.float_weights.emplace_back(
          parameter.key(),
          libtorch::to_constant(libtorch::typed(parameter.value().detach().to(at::kFloat).clone())));
    }
    const std::shared_ptr<qat::Network> network = make_network();
    if (state_.phase == kLongerPhase) run_longer();
    run_quantized(*network);
    tell_float();
    outcome_.epochs = task_.quantized_pace.epochs;
    outcome_.longer_metric = state_.longer_metric;
    return std::move(outcome_);
  }

 private:
  /// Returns the request, with the checksum of its data.
  nlohmann::ordered_json deciding_json() const {
    nlohmann::ordered_json json = request_json(request_);
    std::uint32_t sum = 0;
    for (const TensorPair* samples : {&task_.train, &task_.test}) {
      for (const at::Tensor* tensor : {&samples->inputs, &samples->targets}) {
        if (!tensor->defined()) continue;
        const at::Tensor values = tensor->contiguous().cpu();
        sum =
            crc32_of(std::span(static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()), sum);
      }
    }
    json["data"] = sum;
    return json;
  }

  /// Throws, before anything learns, where the recipe does not fit the network, or the task's caller refuses
  /// the result.
  void check_network() {
    const std::shared_ptr<qat::Network> network = make_network();
    if (network->learned_widths()) return;  // they are known only when half of the training is done
    const graph::Graph graph = frozen(*network);
    if (hooks_.check) hooks_.check(graph);
  }

  TrainOutcome run_float_only() {
    state_.float_metric = train_float(kFloatPhase, task_.float_pace);
    const auto constant = [](const at::Tensor& tensor) {
      return libtorch::to_constant(libtorch::typed(tensor.detach().contiguous().clone()));
    };
    const at::Tensor& inputs = task_.train.inputs;
    outcome_.float_network = {
        .graph = float_graph(),
        .calibration = constant(inputs.narrow(0, 0, std::min(kCalibrationSamples, inputs.size(0)))),
        .inputs = constant(task_.test.inputs),
        .targets = constant(task_.test.targets)};
    tell_float();
    return std::move(outcome_);
  }

  /// Fills in what is known of the float network, and of the task.
  void tell_float() {
    outcome_.metric = task_.metric;
    outcome_.network = task_.network;
    outcome_.stands_for = task_.stands_for;
    outcome_.float_epochs = task_.float_pace.epochs;
    outcome_.float_metric = state_.float_metric;
    for (const Reference& one : task_.references) outcome_.references.emplace_back(one.name, one.score);
    outcome_.log = state_.log;
  }

  /// Returns the float network as it is now.
  graph::Graph float_graph() {
    const std::lock_guard lock(capture_mutex());
    task_.module->eval();
    return task_.graph ? task_.graph() : captured();
  }

  void enter(std::string_view phase) {
    state_.phase = phase;
    state_.position = {};
    kept_.reset();
  }

  void run_float() {
    if (!hooks_.shares_float || kept_) {
      state_.float_metric = train_float(kFloatPhase, task_.float_pace);
      return enter(kLongerPhase);
    }
    const FloatResult shared = float_results().get(float_request_json(request_).dump(), [&] {
      state_.float_metric = train_float(kFloatPhase, task_.float_pace);
      enter(kLongerPhase);
      run_longer();
      return FloatResult{tensors_of(*task_.module), state_.float_metric, state_.longer_metric, state_.log};
    });
    put_tensors(*task_.module, shared.parameters);
    state_.float_metric = shared.metric;
    state_.longer_metric = shared.longer_metric;
    state_.log = shared.log;
    enter(kQuantizedPhase);
  }

  /// Trains the float network longer, then sets it back to where quantized training begins.
  void run_longer() {
    start_ = tensors_of(*task_.module);
    if (kept_) kept_->load_float(*task_.module);
    state_.longer_metric = train_float(kLongerPhase, task_.quantized_pace);
    put_tensors(*task_.module, start_);
    start_.clear();
    enter(kQuantizedPhase);
  }

  double train_float(std::string_view phase, const Pace& pace) {
    const auto optimizer = float_optimizer(*task_.module, pace);
    const std::vector<double> rates = rates_of(*optimizer);
    if (kept_) kept_->load_optimizer(*optimizer);  // with its rates at the stored position
    const Learner learner{.phase = std::string(phase),
                          .pace = pace,
                          .module = task_.module.get(),
                          .forward = task_.forward,
                          .penalty = {},
                          .before_step = {},
                          .optimizer = optimizer.get(),
                          .rates = rates};
    learn(learner, nullptr);
    return score_of(task_, learner);
  }

  void run_quantized(qat::Network& network) {
    torch::optim::AdamW optimizer(network.parameter_groups(
        {.learning_rate = task_.quantized_pace.rate, .weight_decay = task_.quantized_pace.decay}));
    const std::vector<double> rates = rates_of(optimizer);
    if (kept_) {
      kept_->load_network(network);
      kept_->load_optimizer(optimizer);
    }
    const Learner learner{.phase = std::string(kQuantizedPhase),
                          .pace = task_.quantized_pace,
                          .module = &network,
                          .forward = [&](const at::Tensor& x) { return network.forward(x); },
                          .penalty = [&] { return network.penalty(); },
                          .before_step = [&](double progress) { network.advance(progress); },
                          .optimizer = &optimizer,
                          .rates = rates};
    learn(learner, &network);
    network.advance(1);
    outcome_.quantized_metric = score_of(task_, learner);
    network.eval();
    outcome_.quantized = frozen(network);
    for (const qat::LayerAccumulator& layer : network.accumulators()) outcome_.repaired += layer.repaired;
    outcome_.pruned = pruned_share(network.pruned());
    outcome_.widths = network.learned_widths();
    measure_wrapped();
  }

  graph::Graph frozen(qat::Network& network) const {
    graph::Graph graph = network.freeze();
    if (!task_.whole_inputs) return graph;
    const auto [low, high] = *task_.whole_inputs;
    graph.values[graph.inputs.at(0)].annotations[graph::kDatatypeAnnotation] =
        graph::DataType::least_integer(low, high).name();
    return graph;
  }

  /// Returns the float network with quantizers, ready to learn.
  std::shared_ptr<qat::Network> make_network() {
    graph::Graph graph = graph::unroll_recurrent(float_graph());
    const std::lock_guard lock(capture_mutex());
    outcome_.recipe = request_.eight_bit_ends ? with_eight_bit_ends(request_.recipe, graph) : request_.recipe;
    if (request_.float_input) outcome_.recipe = with_float_input(std::move(outcome_.recipe), graph);
    auto network = std::make_shared<qat::Network>(std::move(graph), outcome_.recipe,
                                                  qat::NetworkOptions{.all_layers = request_.all_layers});
    std::vector<std::vector<at::Tensor>> batches;
    for (const at::Tensor& batch : task_.train.inputs.split(task_.quantized_pace.batch)) {
      if (static_cast<std::int64_t>(batches.size()) == kCalibrationBatches) break;
      batches.push_back({batch.contiguous()});
    }
    network->calibrate(batches);
    return network;
  }

  graph::Graph captured() const {
    return libtorch::capture(
        *task_.module, {task_.train.inputs.narrow(0, 0, 5)},
        [&](const libtorch::Tensors& x) { return libtorch::Tensors{task_.forward(x[0])}; });
  }

  void learn(const Learner& learner, torch::nn::Module* network) {
    fit(task_, learner, request_.seed, state_.position,
        {.after_step = [&](const Position& position) { after_step(learner, network, position); },
         .after_epoch = [&](const EpochLine& line) { state_.log.push_back(line); }});
  }

  void after_step(const Learner& learner, torch::nn::Module* network, const Position& position) {
    if (hooks_.progress) tell(learner, position);
    const bool stops = interrupt_requested();
    if (hooks_.keep && (stops || (hooks_.wants_state && hooks_.wants_state()))) {
      RunState now = state_;
      now.position = position;
      hooks_.keep(pack_state(now, *task_.module, network, start_, *learner.optimizer));
    }
    check_interrupt();
  }

  void tell(const Learner& learner, const Position& position) const {
    const std::int64_t steps = steps_of(task_, learner.pace);
    const double seen = static_cast<double>(position.step * learner.pace.batch);
    const bool first = position.epoch == 0 || state_.log.empty();
    std::int64_t done = position.epoch * steps + position.step;
    if (learner.phase != kFloatPhase) done += float_steps_;
    if (learner.phase == kQuantizedPhase) done += quantized_steps_;
    const std::int64_t all = float_steps_ + 2 * quantized_steps_;
    hooks_.progress({.phase = learner.phase,
                     .epoch = position.epoch + 1,
                     .epochs = learner.pace.epochs,
                     .loss = position.step > 0 ? position.loss / seen
                             : first           ? std::numeric_limits<double>::quiet_NaN()
                                               : state_.log.back().loss,
                     .metric = first ? std::numeric_limits<double>::quiet_NaN() : state_.log.back().metric,
                     .done = static_cast<double>(done) / static_cast<double>(all)});
  }

  void measure_wrapped() {
    if (request_.wrap_bits.empty()) return;
    const WrappingNetwork network(outcome_.quantized);
    for (const int bits : request_.wrap_bits) {
      outcome_.wrapped.push_back(
          {.bits = bits, .metric = task_.score(network.run(task_.test.inputs, bits), task_.test.targets)});
    }
  }

  const TrainRequest& request_;
  const TrainHooks& hooks_;
  Task task_;
  std::int64_t float_steps_ = 0, quantized_steps_ = 0;
  std::vector<at::Tensor> start_;    // where quantized training starts, while the float network trains longer
  std::optional<PackedState> kept_;  // until its phase has taken it over
  RunState state_;
  TrainOutcome outcome_;
};

class TorchTrainer : public Trainer {
 public:
  TrainOutcome train(const TrainRequest& request, const TrainHooks& hooks) override {
    at::set_num_threads(1);
    return Run(request, hooks).run();
  }
};

}  // namespace

Trainer& trainer() {
  static TorchTrainer one;
  return one;
}

}  // namespace crumb::tasks
