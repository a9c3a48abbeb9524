// What of a decoder learns, and how: the trainer's view of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "libtorch/execute/cut_pass.h"
#include "tasks/language/language_trainer.h"

namespace crumb::qat {
class Network;
}

namespace crumb::tasks {

class Student {
 public:
  virtual ~Student() = default;

  /// Before training: by samples of inputs, where something has to be found from them.
  virtual void start(const std::vector<std::vector<at::Tensor>>& samples) = 0;

  /// Whether start() decides the shapes of what learns, so that load() needs it before.
  virtual bool start_shapes() const { return false; }

  /// What is kept of it between runs.
  virtual torch::nn::Module& module() = 0;

  /// Before steps of LanguageRequest::steps.scales_alone, or load() of what was kept of them.
  virtual void fix_codes() = 0;

  /// For AdamW; without decay, which pulls weights to zero, where the coarsest grids have no code.
  virtual std::vector<torch::optim::OptimizerParamGroup> parameter_groups(
      const LanguageRequest& request) const = 0;

  /// Before each step, the share of training that is done.
  virtual void advance(double share) = 0;

  /// The decoder cut behind its last layer; in training as it learns, else (`learns` false) as it will be frozen.
  virtual libtorch::CutPass pass(const std::vector<at::Tensor>& inputs, bool learns) = 0;

  /// All that it gives, in the same way; of encoders, which have no layers to cut behind.
  virtual std::vector<at::Tensor> outputs(const std::vector<at::Tensor>& inputs, bool learns) = 0;

  /// What is added to the loss, beside what passes give; undefined: nothing.
  virtual at::Tensor penalty() const = 0;

  /// The decoder as its file holds it. pass() gives the same from now on.
  virtual graph::Graph freeze() = 0;

  /// Where all of it learns, for block-wise training; else null.
  virtual qat::Network* network() { return nullptr; }
};

/// Of LanguageRequest: its recipe's network, or its recovery's adapter. Throws as those do.
std::unique_ptr<Student> student_of(const LanguageRequest& request);

/// Throws what student_of() would of the request when stages have made its start, which may bring the adapters that are to learn.
void check_student(const LanguageRequest& request);

}  // namespace crumb::tasks
