// Which task labels are of, and what scores it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "eval/output_comparison.h"
#include "eval/tasks/scorer.h"
#include "jobs/evaluate.h"
#include "jobs/evaluate/sample_labels.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// A sample of the output that labels are of.
struct LabelledOutput {
  std::vector<std::int64_t> shape;  ///< the baseline's
  bool is_whole = false;            ///< the baseline gives integers or yes and no
  bool has_scores = true;           ///< every model gives more than one number
};

/// Guesses by the labels and the output. Throws usage Error where they fit no task; names both, and `field`
/// for the task.
std::string guess_task(const SampleLabels& labels, const LabelledOutput& output, const std::string& field);

/// Returns what makes a scorer of the task for such outputs; each call makes another. Throws usage Error for
/// tasks that need what the request does not give, and Error where a file of it cannot be read.
std::function<std::unique_ptr<eval::Scorer>()> scorers_of(const std::string& task,
                                                          const EvaluateRequest& request,
                                                          const SampleLabels& labels,
                                                          const LabelledOutput& output,
                                                          const Observer& observer);

/// What a task takes of labels.
LabelKind label_kind(const std::string& task);

/// What rows of an output are. `task`: "" where there are no labels; `shape`: of a sample.
eval::RowAxis row_axis(const std::string& task, const std::vector<std::int64_t>& shape);

}  // namespace crumb::jobs
