// Measures how far a file is from the float network: on arrays, on a text that is predicted, on sentences.
#pragma once

#include <memory>
#include <string>

#include "eval/output_scores.h"
#include "jobs/network_quantization.h"
#include "jobs/sweep.h"

namespace crumb::jobs {

/// Runs nothing before the first question. Runs the float network once, except a language model, whose logits
/// would not fit in memory: that runs along with each file.
class Measure {
 public:
  Measure() = default;
  Measure(const Measure&) = delete;
  Measure& operator=(const Measure&) = delete;
  virtual ~Measure() = default;

  /// Scores of the float network against itself.
  virtual eval::Scores of_float() = 0;
  /// Scores of a packed file. Throws Error where its outputs are not finite.
  virtual eval::Scores of(const std::string& file) = 0;
};

/// Returns the measure for the network's kind and, for texts, the samples'. Throws usage Error where the
/// request fits neither. The source and the observer must outlive it.
std::unique_ptr<Measure> measure_of(const NetworkSource& source, SweepRequest request, Observer& observer);

}  // namespace crumb::jobs
