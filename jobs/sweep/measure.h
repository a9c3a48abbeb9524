// How far a file is from the float network: on arrays, on a text that is predicted, on sentences.
#pragma once

#include <memory>
#include <string>

#include "eval/output_scores.h"
#include "jobs/network_quantization.h"
#include "jobs/sweep.h"

namespace crumb::jobs {

/// Nothing is run before the first question; the float network is run once, but a language model beside each
/// other one, whose logits would not fit.
class Measure {
 public:
  Measure() = default;
  Measure(const Measure&) = delete;
  Measure& operator=(const Measure&) = delete;
  virtual ~Measure() = default;

  /// Of the float network against itself.
  virtual eval::Scores of_float() = 0;
  /// Of a packed file. Throws Error where what it gives is not finite.
  virtual eval::Scores of(const std::string& file) = 0;
};

/// By what the network is, and whether samples are a text. Throws usage Error where the request does not fit
/// the two. The observer must outlive it.
std::unique_ptr<Measure> measure_of(const NetworkSource& source, SweepRequest request, Observer& observer);

}  // namespace crumb::jobs
