// Labels that have the shape of outputs.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "eval/tasks/scorer.h"

namespace crumb::eval {

/// Returns the sizes without those of 1, which say nothing.
inline std::vector<std::int64_t> long_axes(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> kept;
  for (const std::int64_t size : shape)
    if (size != 1) kept.push_back(size);
  return kept;
}

/// Returns "[3, 224, 224]".
inline std::string shape_words(std::span<const std::int64_t> shape) {
  std::string words = "[";
  for (const std::int64_t size : shape) words += (words.size() > 1 ? ", " : "") + std::to_string(size);
  return words + "]";
}

/// Throws Error where the label's values do not have the output's shape, axes of length 1 apart.
inline void check_same_shape(const SampleOutput& output, const SampleLabel& label, std::string_view task) {
  if (label.values.size() == output.values.size() && long_axes(output.shape) == long_axes(label.shape))
    return;
  throw Error(std::string(task) + " takes labels of the output's shape; a sample's output is " +
              shape_words(output.shape) + ", and its label " + shape_words(label.shape));
}

}  // namespace crumb::eval
