#include "tasks/train/fit.h"

#include <ATen/ATen.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "tasks/random.h"

namespace crumb::tasks {
namespace {

/// The phases after the float network's training take samples in the same order, with quantizers or without.
std::uint64_t stream_of(const std::string& phase, int epoch) {
  return (phase == kFloatPhase ? 1000000U : 2000000U) + static_cast<std::uint64_t>(epoch);
}

std::vector<at::Tensor> chosen(const std::vector<at::Tensor>& tensors, const at::Tensor& indices) {
  std::vector<at::Tensor> found;
  for (const at::Tensor& one : tensors) found.push_back(one.index_select(0, indices));
  return found;
}

class Loop {
 public:
  Loop(const Task& task, const Learner& learner, std::uint64_t seed, const FitHooks& hooks)
      : task_(task), learner_(learner), seed_(seed), hooks_(hooks), steps_(steps_of(task, learner.pace)) {}

  void run(Position& position) {
    learner_.module->train();
    for (; position.epoch < learner_.pace.epochs; position = {.epoch = position.epoch + 1}) {
      run_epoch(position);
    }
  }

 private:
  void run_epoch(Position& position) {
    const std::int64_t samples = task_.train.count(), batch = learner_.pace.batch;
    Random random(seed_, stream_of(learner_.phase, position.epoch));
    const std::vector<std::int64_t> order = random.permutation(static_cast<std::size_t>(samples));
    const at::Tensor indices = at::from_blob(const_cast<std::int64_t*>(order.data()), {samples}, at::kLong);
    while (position.step < steps_) {
      const std::int64_t begin = position.step * batch, count = std::min(batch, samples - begin);
      position.loss += step(position, indices.narrow(0, begin, count)) * static_cast<double>(count);
      ++position.step;
      if (position.step == steps_) end_epoch(position);
      if (hooks_.after_step && position.step < steps_) hooks_.after_step(position);
    }
  }

  void end_epoch(const Position& position) {
    std::vector<double> scores = scores_of(task_, learner_);
    const EpochLine line{.phase = learner_.phase,
                         .epoch = position.epoch + 1,
                         .loss = position.loss / static_cast<double>(task_.train.count()),
                         .metric = scores[0],
                         .others = {scores.begin() + 1, scores.end()}};
    if (hooks_.after_epoch) hooks_.after_epoch(line);
    if (hooks_.after_step) hooks_.after_step({.epoch = position.epoch + 1});
  }

  double step(const Position& position, const at::Tensor& indices) {
    const std::int64_t done = position.epoch * steps_ + position.step, all = learner_.pace.epochs * steps_;
    if (learner_.before_step) learner_.before_step(static_cast<double>(done) / static_cast<double>(all));
    const double share = cosine(done, all);
    std::size_t group = 0;
    for (auto& parameters : learner_.optimizer->param_groups()) {
      parameters.options().set_lr(learner_.rates[group++] * share);
    }
    const at::Tensor loss =
        loss_of(task_, run_network(task_, learner_.forward, chosen(task_.train.inputs, indices)),
                chosen(task_.train.targets, indices));
    const double value = loss.item<double>();
    if (!std::isfinite(value)) {
      throw Error("the loss of the " + learner_.phase + " network is not finite in epoch " +
                  std::to_string(position.epoch + 1) + ": training diverged");
    }
    learner_.optimizer->zero_grad();
    (learner_.penalty ? loss + learner_.penalty() : loss).backward();
    learner_.optimizer->step();
    if (learner_.after_update) learner_.after_update();
    return value;
  }

  const Task& task_;
  const Learner& learner_;
  std::uint64_t seed_;
  const FitHooks& hooks_;
  std::int64_t steps_;
};

}  // namespace

std::vector<double> rates_of(const torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

std::int64_t steps_of(const Task& task, const Pace& pace) {
  return (task.train.count() + pace.batch - 1) / pace.batch;
}

double cosine(std::int64_t step, std::int64_t steps) {
  return (1 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(steps))) / 2;
}

std::vector<at::Tensor> outputs_of(const Task& task, torch::nn::Module& module,
                                   const NetworkFunction& forward, const std::vector<at::Tensor>& inputs,
                                   std::int64_t batch) {
  const torch::NoGradGuard no_gradients;
  const bool was_training = module.is_training();
  module.eval();
  std::vector<std::vector<at::Tensor>> parts(task.outputs.size());
  const std::int64_t samples = inputs.at(0).size(0);
  for (std::int64_t begin = 0; begin < samples; begin += batch) {
    std::vector<at::Tensor> part;
    for (const at::Tensor& input : inputs)
      part.push_back(input.narrow(0, begin, std::min(batch, samples - begin)));
    std::vector<at::Tensor> made = run_network(task, forward, part);
    for (std::size_t i = 0; i < made.size(); ++i) parts[i].push_back(std::move(made[i]));
  }
  module.train(was_training);
  std::vector<at::Tensor> outputs;
  for (const std::vector<at::Tensor>& one : parts) outputs.push_back(at::cat(one));
  return outputs;
}

std::vector<double> scores_of(const Task& task, const Learner& learner) {
  return scores_of(task, outputs_of(task, *learner.module, learner.forward, task.test.inputs),
                   task.test.targets);
}

void fit(const Task& task, const Learner& learner, std::uint64_t seed, Position& position,
         const FitHooks& hooks) {
  Loop(task, learner, seed, hooks).run(position);
}

}  // namespace crumb::tasks
