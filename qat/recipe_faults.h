// What a recipe asks of a network that cannot be trained so: all of it in one error.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace crumb::qat {

/// Throws Error with all of them; nothing where there are none.
inline void throw_if_any(const std::vector<std::string>& faults) {
  if (faults.empty()) return;
  std::string message = "the recipe cannot be trained:";
  for (const std::string& fault : faults) message += "\n  " + fault;
  throw Error(message);
}

}  // namespace crumb::qat
