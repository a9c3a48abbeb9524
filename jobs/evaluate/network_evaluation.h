// Runs samples through networks in turn and scores what they give.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "eval/output_comparison.h"
#include "eval/tasks/scorer.h"
#include "jobs/evaluate.h"
#include "jobs/evaluate/evaluated_network.h"
#include "jobs/evaluate/sample_labels.h"
#include "jobs/observer.h"
#include "jobs/samples/calibration_data.h"

namespace crumb::jobs {

class NetworkEvaluation {
 public:
  /// Opens everything. The observer must outlive it.
  NetworkEvaluation(EvaluateRequest request, Observer& observer);

  /// Runs all samples, or those until a person asks to stop.
  EvaluateReport run();

 private:
  struct Compared {
    std::unique_ptr<eval::Scorer> scorer;         ///< null without labels
    std::vector<eval::OutputComparison> outputs;  ///< with the baseline's
  };

  void run_file(std::size_t file);
  /// Returns why an output of the first samples cannot be compared; "" where it can.
  std::string why_not_compared(const std::vector<std::vector<graph::Tensor>>& made, std::size_t output,
                               std::int64_t count) const;
  /// Chooses task and scorers by the first samples that ran.
  void begin_scores(const std::vector<std::vector<graph::Tensor>>& made, std::int64_t count);
  void check_labels(std::int64_t samples) const;
  /// Adds the samples of all networks' outputs: [networks][outputs].
  void add(const std::vector<std::vector<graph::Tensor>>& made, std::int64_t count);
  EvaluateReport report(bool interrupted) const;
  void measure_layers(EvaluateReport& made) const;
  ModelEvaluation evaluation_of(std::size_t model) const;
  std::vector<WorstSample> worst_of(const Compared& model) const;
  /// Reads the inputs of these samples once more.
  void add_inputs(EvaluateReport& report) const;
  void tell(std::int64_t done_of_file, std::int64_t file_samples, std::size_t file) const;

  EvaluateRequest request_;
  Observer& observer_;
  std::vector<EvaluatedNetwork> networks_;  ///< the baseline first
  CalibrationData data_;
  std::optional<SampleLabels> labels_;
  std::string task_;
  std::size_t labelled_ = 0;  ///< output
  std::unique_ptr<eval::Scorer> baseline_scorer_;
  std::vector<Compared> models_;
  std::vector<bool> is_compared_;  ///< outputs that are floats
  std::size_t samples_ = 0;
  std::vector<std::size_t> begins_;  ///< of each file its first sample
};

}  // namespace crumb::jobs
