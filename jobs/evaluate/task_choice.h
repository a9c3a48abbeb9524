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

/// Guesses by the labels and the shape of a sample's output. Throws usage Error where they fit no task; names
/// both, and `field` for the task.
std::string guess_task(const SampleLabels& labels, const std::vector<std::int64_t>& output,
                       const std::string& field);

/// Returns what makes a scorer of the task for outputs of this shape a sample; each call makes another.
/// Throws usage Error for tasks that need what the request does not give, and Error where a file of it cannot
/// be read.
std::function<std::unique_ptr<eval::Scorer>()> scorers_of(const std::string& task,
                                                          const EvaluateRequest& request,
                                                          const SampleLabels& labels,
                                                          const std::vector<std::int64_t>& shape,
                                                          const Observer& observer);

/// Whether labels are numbers as the output has them.
bool takes_values(const std::string& task);

/// What rows of an output are. `task`: "" where there are no labels; `shape`: of a sample.
eval::RowAxis row_axis(const std::string& task, const std::vector<std::int64_t>& shape);

}  // namespace crumb::jobs
