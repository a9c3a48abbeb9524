// What the outputs of a user's network learn: labels and their losses, or what the float network gives.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "tasks/task.h"
#include "tasks/train/own_network.h"

namespace crumb::tasks {

/// -100, the class of what does not count.
inline constexpr std::int64_t kIgnored = -100;

/// "'net'", or where it has several outputs "output 'y' of 'net'", for messages.
std::string text_of_output(const OwnNetwork& own, const OwnOutput& output);

/// Returns an array's samples along axis 0. `axis`: where the value has them; an array of fewer axes has them
/// on axis 0.
at::Tensor samples_first(const graph::Tensor& array, std::int64_t axis);

struct OutputLabels {
  at::Tensor targets;           ///< samples along axis 0
  std::int64_t class_axis = 1;  ///< with "ce": of the classes in what the output gives
};

/// Returns the labels of an output that has some. `example`: what it gives for one sample. Throws Error,
/// naming what was found and expected, where they do not fit what the output gives.
OutputLabels labels_of(const OwnNetwork& own, const OwnOutput& output, const OwnArray& labels,
                       const at::Tensor& example);

/// Throws Error where all labels are kIgnored. `which`: "to train by".
void expect_counting(const at::Tensor& labels, const std::string& from, const std::string& which);

/// Sets cross entropy as the loss, the accuracy as the score. `axis` is the classes'; `are_shares`: the
/// output gives probabilities.
void use_classes(TaskOutput& output, std::int64_t axis, bool are_shares);

/// Sets the mean squared error as the loss and the score.
void use_values(TaskOutput& output);

/// Sets the squared error relative to the mean square of `given`, what the float network gives for the
/// training samples, as the loss and the score ("relative error").
void use_float_outputs(TaskOutput& output, const at::Tensor& given);

/// Returns where the classes of a held output with the loss "kl" are in `example`, what it gives for one
/// sample with samples along axis 0. Throws Error, naming what was found and expected, where there are none.
std::int64_t held_class_axis(const OwnNetwork& own, const OwnOutput& output, const at::Tensor& example);

/// Sets the Kullback-Leibler divergence from what the float network gives, sum of p (log p - log q) over
/// classes, p being the float network's, as the loss and the score ("kl"): its mean over samples and places.
/// `axis` is the classes'; `are_shares`: the output gives probabilities, not logits.
void use_float_distributions(TaskOutput& output, std::int64_t axis, bool are_shares);

}  // namespace crumb::tasks
