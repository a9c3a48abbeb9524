// The loop of one phase: batches in random order, AdamW, a learning rate that falls as a cosine.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tasks/task.h"
#include "tasks/train/trainer.h"

namespace crumb::tasks {

/// The position in a phase: before this step of this epoch.
struct Position {
  int epoch = 0;
  std::int64_t step = 0;
  double loss = 0;  ///< summed over the samples of this epoch's steps
};

/// The network that learns, and how.
struct Learner {
  std::string phase;
  Pace pace;
  torch::nn::Module* module = nullptr;
  NetworkFunction forward;              ///< as Task::forward
  std::function<at::Tensor()> penalty;  ///< added to the loss; may be empty
  std::function<void(double progress)>
      before_step;  ///< called with the share of the phase's steps that are done; may be empty
  std::function<void()> after_update;  ///< called when the optimizer has changed parameters; may be empty
  torch::optim::Optimizer* optimizer = nullptr;
  std::vector<double> rates;  ///< those of the optimizer's groups, where the cosine begins
};

/// Returns the current rates.
std::vector<double> rates_of(const torch::optim::Optimizer& optimizer);

struct FitHooks {
  std::function<void(const Position& position)> after_step;  ///< may throw
  std::function<void(const EpochLine& line)> after_epoch;
};

/// Trains from `position` to the end of the last epoch. Which samples a step takes follows from the seed, the
/// phase, the epoch and the step alone. Throws Error where the loss is not finite.
void fit(const Task& task, const Learner& learner, std::uint64_t seed, Position& position,
         const FitHooks& hooks);

/// Returns the outputs that learn for all samples, computed in batches, in eval mode, without gradients.
/// Afterwards the module is in the mode that it was in.
std::vector<at::Tensor> outputs_of(const Task& task, torch::nn::Module& module,
                                   const NetworkFunction& forward, const std::vector<at::Tensor>& inputs,
                                   std::int64_t batch = 256);

/// Returns the learner's scores on the test set, of each output that learns.
std::vector<double> scores_of(const Task& task, const Learner& learner);

/// Returns the number of steps in one epoch.
std::int64_t steps_of(const Task& task, const Pace& pace);

/// Returns the share of its learning rate that step `step` of `steps` has: (1 + cos(pi step / steps)) / 2.
double cosine(std::int64_t step, std::int64_t steps);

}  // namespace crumb::tasks
