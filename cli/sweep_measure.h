// How far a file is from the float network: on arrays, on a text that is foretold, on sentences.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "eval/output_scores.h"
#include "jobs/network_quantization.h"

namespace crumb::cli {

struct MeasureWish {
  std::string input;               ///< the float network's file or folder
  std::vector<std::string> valid;  ///< arrays as --data takes them, or a text
  std::string labels;              ///< of arrays; "": none
  std::size_t tokens = 0;          ///< of a language model's text; 0: all
  std::size_t context = 0;         ///< of its windows
  std::optional<double> peak;      ///< of a psnr
  int threads = 0;
};

/// Nothing is run before the first question; the float network is run once, but a language model beside each other one, whose
/// logits would not fit.
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

/// By what the network is, and whether samples are a text. Throws usage Error where the wish does not fit the two.
std::unique_ptr<Measure> measure_of(const jobs::NetworkSource& source, MeasureWish wish);

}  // namespace crumb::cli
