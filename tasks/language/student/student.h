// What part of a decoder learns, and how: the interface that the trainer sees.
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

  /// Runs before training; takes samples of inputs where something must be found from them.
  virtual void start(const std::vector<std::vector<at::Tensor>>& samples) = 0;

  /// Whether start() decides the shapes of the parameters, so that it must run before load().
  virtual bool start_shapes() const { return false; }

  /// Returns what is stored between runs.
  virtual torch::nn::Module& module() = 0;

  /// Fixes the codes before steps of LanguageRequest::steps.scales_alone, or before load() of what such steps
  /// stored.
  virtual void fix_codes() = 0;

  /// Returns AdamW's groups; without weight decay, which pulls weights to zero, where the coarsest grids have
  /// no code.
  virtual std::vector<torch::optim::OptimizerParamGroup> parameter_groups(
      const LanguageRequest& request) const = 0;

  /// Runs before each step with the share of training that is done.
  virtual void advance(double share) = 0;

  /// Runs the decoder, cut after its last layer: as it learns in training, else (`learns` false) as it will
  /// be frozen.
  virtual libtorch::CutPass pass(const std::vector<at::Tensor>& inputs, bool learns) = 0;

  /// Returns all outputs, in the same way; for encoders, which have no layers to cut after.
  virtual std::vector<at::Tensor> outputs(const std::vector<at::Tensor>& inputs, bool learns) = 0;

  /// Returns a term to add to the loss, in addition to what passes give; undefined: nothing.
  virtual at::Tensor penalty() const = 0;

  /// Returns the decoder as its file stores it. From now on pass() computes the same.
  virtual graph::Graph freeze() = 0;

  /// Returns the network where all of it learns, for block-wise training; else null.
  virtual qat::Network* network() { return nullptr; }
};

/// Makes the student of a request: its recipe's network, or its recovery's adapter. Throws as those do.
std::unique_ptr<Student> student_of(const LanguageRequest& request);

/// Throws what student_of() would throw for the request once stages have made its start, which may bring the
/// adapters that learn.
void check_student(const LanguageRequest& request);

}  // namespace crumb::tasks
