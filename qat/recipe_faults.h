// Reports all that a recipe asks of a network but that training cannot do, in one error.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace crumb::qat {

/// Throws Error with all faults; does nothing where there are none.
inline void throw_if_any(const std::vector<std::string>& faults) {
  if (faults.empty()) return;
  std::string message = "the recipe cannot be trained:";
  for (const std::string& fault : faults) message += "\n  " + fault;
  throw Error(message);
}

}  // namespace crumb::qat
