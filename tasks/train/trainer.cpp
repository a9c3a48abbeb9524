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
    if (request.float_longer) longer_steps_ = quantized_steps_;
    if (request.recipe.prune) find_zeros();
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
    if (!state_.longer_metrics.empty()) outcome_.longer_metric = state_.longer_metrics[0];
    return std::move(outcome_);
  }

 private:
  /// Returns the request, with the checksum of its data.
  nlohmann::ordered_json deciding_json() const {
    nlohmann::ordered_json json = request_json(request_);
    std::uint32_t sum = 0;
    for (const SampleTensors* samples : {&task_.train, &task_.test}) {
      for (const std::vector<at::Tensor>* tensors : {&samples->inputs, &samples->targets}) {
        for (const at::Tensor& tensor : *tensors) {
          const at::Tensor values = tensor.contiguous().cpu();
          sum = crc32_of(std::span(static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()),
                         sum);
        }
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
    state_.float_metrics = train_float(kFloatPhase, task_.float_pace);
    outcome_.float_network.emplace();
    NetworkWithSamples& made = *outcome_.float_network;
    made.graph = float_graph();
    made.calibration = named_inputs(task_.train.inputs, std::min(kCalibrationSamples, task_.train.count()),
                                    made.graph.inputs);
    made.inputs = named_inputs(task_.test.inputs, task_.test.count(), made.graph.inputs);
    for (std::size_t i = 0; i < task_.outputs.size(); ++i) {
      const TaskOutput& output = task_.outputs[i];
      if (output.is_held) continue;
      const at::Tensor& targets = task_.test.targets[i];
      const bool moves = output.axis != 0 && targets.dim() > output.axis;
      made.targets.emplace_back(output.name, constant(moves ? targets.movedim(0, output.axis) : targets));
    }
    tell_float();
    return std::move(outcome_);
  }

  static graph::Tensor constant(const at::Tensor& tensor) {
    return libtorch::to_constant(libtorch::typed(tensor.detach().contiguous().clone()));
  }

  /// Returns the first samples as the network takes them.
  NamedArrays named_inputs(const std::vector<at::Tensor>& inputs, std::int64_t count,
                           const std::vector<std::string>& names) const {
    std::vector<at::Tensor> first;
    for (const at::Tensor& input : inputs) first.push_back(input.narrow(0, 0, count));
    NamedArrays arrays;
    for (const at::Tensor& input : network_inputs(task_, first))
      arrays.emplace_back(names.at(arrays.size()), constant(input));
    return arrays;
  }

  /// Fills in what is known of the float network, and of the task.
  void tell_float() {
    outcome_.metric = task_.outputs[0].metric;
    outcome_.network = task_.network;
    outcome_.stands_for = task_.stands_for;
    outcome_.float_epochs = task_.float_pace.epochs;
    outcome_.float_metric = state_.float_metrics.at(0);
    for (std::size_t i = 0; i < task_.outputs.size() && task_.outputs.size() > 1; ++i) {
      const TaskOutput& output = task_.outputs[i];
      OutputScores scores{.name = output.name,
                          .metric = output.metric,
                          .weight = output.weight,
                          .is_held = output.is_held,
                          .float_metric = state_.float_metrics.at(i)};
      if (!quantized_metrics_.empty()) scores.quantized_metric = quantized_metrics_[i];
      if (!state_.longer_metrics.empty()) scores.longer_metric = state_.longer_metrics[i];
      outcome_.outputs.push_back(std::move(scores));
    }
    for (const Reference& one : task_.references) outcome_.references.emplace_back(one.name, one.score);
    outcome_.log = state_.log;
  }

  /// Returns the float network as it is now.
  graph::Graph float_graph() {
    const std::lock_guard lock(capture_mutex());
    task_.module->eval();
    return task_.graph ? task_.graph() : captured();
  }

  /// Remembers which weights of the float network are zero before anything learns.
  void find_zeros() {
    for (const at::Tensor& parameter : task_.module->parameters()) {
      const at::Tensor zeros = parameter.detach().eq(0);
      if (parameter.dim() >= 2 && zeros.any().item<bool>()) zeros_.emplace_back(parameter, zeros);
    }
  }

  void keep_zeros() const {
    const torch::NoGradGuard no_gradients;
    for (const auto& [parameter, zeros] : zeros_) parameter.masked_fill_(zeros, 0);
  }

  void enter(std::string_view phase) {
    state_.phase = phase;
    state_.position = {};
    kept_.reset();
  }

  void run_float() {
    const std::string_view next = request_.float_longer ? kLongerPhase : kQuantizedPhase;
    if (!hooks_.shares_float || kept_) {
      state_.float_metrics = train_float(kFloatPhase, task_.float_pace);
      return enter(next);
    }
    const std::string key = float_request_json(request_).dump() +
                            (request_.float_longer ? "" : " without longer") +
                            (zeros_.empty() ? "" : " with zeros");
    const FloatResult shared = float_results().get(key, [&] {
      state_.float_metrics = train_float(kFloatPhase, task_.float_pace);
      enter(next);
      if (request_.float_longer) run_longer();
      return FloatResult{tensors_of(*task_.module), state_.float_metrics, state_.longer_metrics, state_.log};
    });
    put_tensors(*task_.module, shared.parameters);
    state_.float_metrics = shared.metrics;
    state_.longer_metrics = shared.longer_metrics;
    state_.log = shared.log;
    enter(kQuantizedPhase);
  }

  /// Trains the float network longer, then sets it back to where quantized training begins.
  void run_longer() {
    start_ = tensors_of(*task_.module);
    if (kept_) kept_->load_float(*task_.module);
    state_.longer_metrics = train_float(kLongerPhase, task_.quantized_pace);
    put_tensors(*task_.module, start_);
    start_.clear();
    enter(kQuantizedPhase);
  }

  std::vector<double> train_float(std::string_view phase, const Pace& pace) {
    const auto optimizer = float_optimizer(*task_.module, pace);
    const std::vector<double> rates = rates_of(*optimizer);
    if (kept_) kept_->load_optimizer(*optimizer);  // with its rates at the stored position
    const Learner learner{.phase = std::string(phase),
                          .pace = pace,
                          .module = task_.module.get(),
                          .forward = task_.forward,
                          .penalty = {},
                          .before_step = {},
                          .after_update = [&] { keep_zeros(); },
                          .optimizer = optimizer.get(),
                          .rates = rates};
    learn(learner, nullptr);
    return scores_of(task_, learner);
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
                          .forward = [&](const auto& inputs) { return network.forward(inputs); },
                          .penalty = [&] { return network.penalty(); },
                          .before_step = [&](double progress) { network.advance(progress); },
                          .after_update = {},
                          .optimizer = &optimizer,
                          .rates = rates};
    learn(learner, &network);
    network.advance(1);
    quantized_metrics_ = scores_of(task_, learner);
    outcome_.quantized_metric = quantized_metrics_[0];
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
    const std::int64_t samples = task_.train.count(), size = task_.quantized_pace.batch;
    for (std::int64_t begin = 0; begin < std::min(samples, kCalibrationBatches * size); begin += size) {
      std::vector<at::Tensor> batch;
      for (const at::Tensor& input : task_.train.inputs)
        batch.push_back(input.narrow(0, begin, std::min(size, samples - begin)).contiguous());
      batches.push_back(network_inputs(task_, batch));
    }
    network->calibrate(batches);
    return network;
  }

  graph::Graph captured() const {
    return libtorch::capture(*task_.module, {task_.train.inputs.at(0).narrow(0, 0, 5)}, task_.forward);
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
    if (learner.phase == kQuantizedPhase) done += longer_steps_;
    const std::int64_t all = float_steps_ + longer_steps_ + quantized_steps_;
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
      const std::vector<at::Tensor> made = run_network(
          task_, [&](const auto& inputs) { return network.run(inputs, bits); }, task_.test.inputs);
      outcome_.wrapped.push_back({.bits = bits, .metric = scores_of(task_, made, task_.test.targets)[0]});
    }
  }

  const TrainRequest& request_;
  const TrainHooks& hooks_;
  Task task_;
  std::int64_t float_steps_ = 0, longer_steps_ = 0, quantized_steps_ = 0;
  std::vector<double> quantized_metrics_;
  std::vector<std::pair<at::Tensor, at::Tensor>> zeros_;  // parameters, and what of them stays zero
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
