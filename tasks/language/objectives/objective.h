// What a network is trained by and measured on: samples, the gradients of their loss, and the network's
// score.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tasks/language/language_trainer.h"
#include "tasks/language/student/student.h"

namespace crumb::tasks {

class Objective {
 public:
  using Samples = std::vector<std::int64_t>;  ///< indices, from 0

  virtual ~Objective() = default;

  virtual std::int64_t count() const = 0;  ///< number of samples
  virtual std::int64_t tokens_of(std::int64_t sample) const = 0;

  /// Returns the network's inputs for each of the first samples, at most `most`, on the CPU.
  virtual std::vector<std::vector<at::Tensor>> inputs_of_first(std::int64_t most) const = 0;

  /// Called before the first step and after measure_floats, with the samples that steps will take, ascending.
  virtual void prepare(const Samples& wanted) = 0;

  /// Returns LanguageOutcome's measure for the float network and for the student as it will be frozen;
  /// kNotMeasured where there is nothing to measure by.
  virtual double measure_floats() = 0;
  virtual double measure(Student& student) = 0;

  /// Trains the whole network block-wise (LanguageRequest::block_wise).
  virtual std::vector<LayerLine> train_layers(
      qat::Network& network, const std::function<void(const LayerLine&, std::int64_t)>& layer_done) = 0;

  /// Returns the number of these samples' positions that the mean loss of a step counts.
  virtual double weight_of(const Samples& samples) const = 0;

  /// Gathers the gradients of these samples' part of a step's loss, a mean over `all` positions. Returns that
  /// part.
  virtual double gather(Student& student, const Samples& samples, double all) = 0;
};

/// Returns the objective for what the request holds: sequences of a text, or lines.
std::unique_ptr<Objective> objective_of(const LanguageRequest& request, const LanguageHooks& hooks);

}  // namespace crumb::tasks
