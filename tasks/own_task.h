// A network from a file as a task.
#pragma once

#include "tasks/task.h"
#include "tasks/train/own_network.h"

namespace crumb::tasks {

/// What trains are the float constants of rank 1 and more, but: what steers quantizers, shapes and batch statistics,
/// what an elementwise operator does to the input before the first operator with weights (that normalises), and masks
/// (numbers that are not finite or beyond 1e9).
///
/// A batch that the file fixes is opened. "ce": cross entropy over the axis that the targets have not, which is
/// the second or the last; behind a Softmax, of its logarithm; targets of -100 do not count. The score is the accuracy.
/// "mse": the mean squared error, also the score: less is better.
/// Throws Error, naming what was found and expected, where data do not fit the network or one another.
Task own_task(const OwnNetwork& own);

}  // namespace crumb::tasks
