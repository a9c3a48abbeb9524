// Names quantizers as submodules.
#pragma once

#include <torch/nn/module.h>

#include <algorithm>
#include <string>

namespace crumb::qat {

/// Returns a name for a new child of `owner` that stands for this value. Dots, which would make submodules of
/// their own, become underscores; where a child has that name already, a number follows.
inline std::string child_name(const torch::nn::Module& owner, std::string name) {
  std::ranges::replace(name, '.', '_');
  if (name.empty()) name = "value";
  const auto children = owner.named_children();
  std::string free = name;
  for (int number = 2; children.contains(free); ++number) free = name + "_" + std::to_string(number);
  return free;
}

}  // namespace crumb::qat
