// Inputs and the outputs that a network shall give, as plain numbers: no LibTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace crumb::tasks {

struct Samples {
  std::vector<std::int64_t> shape;  ///< of one input
  std::vector<float> inputs;        ///< one after another, row-major
  std::vector<std::int64_t> labels;

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

struct Split {
  Samples train, test;
};

}  // namespace crumb::tasks
