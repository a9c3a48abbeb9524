// Options with which a language model is opened.
#pragma once

#include <string>
#include <vector>

namespace crumb::jobs {

struct ModelOptions {
  std::string kv_cache;               ///< the spec of keys and values that are kept; "": as the model says
  std::vector<std::string> adapters;  ///< files or folders, which stand beside its matrices
  bool without_adapters = false;      ///< those that the model's own file has are left out
};

}  // namespace crumb::jobs
