// Makes a task of a network from a file.
#pragma once

#include "tasks/task.h"
#include "tasks/train/own_network.h"

namespace crumb::tasks {

/// The float constants of rank 1 and more train, except: those that control quantizers, shapes and batch
/// statistics, those by which an elementwise operator normalises the input before the first operator with
/// weights, and masks (numbers that are not finite or beyond 1e9).
///
/// A batch size that the file fixes is made open. "ce": cross entropy over the axis that the targets do not
/// have, which is the second or the last; after a Softmax, of its logarithm; targets of -100 do not count.
/// The score is the accuracy. "mse": the mean squared error, also the score: less is better. An output that
/// is held: the squared error to what the network of the file gives, relative to the mean square of that,
/// also the score ("relative error"), or with "kl" the divergence of its distributions from that network's
/// ("kl"). The first of the outputs is the first that has labels.
/// Throws Error, naming what was found and expected, where data do not fit the network or one another.
Task own_task(const OwnNetwork& own);

}  // namespace crumb::tasks
