// The variants of the inner loops that this processor has.
#pragma once

#include <vector>

#include "quant/loops/loops.h"

namespace crumb::testing {

inline std::vector<const Loops*> variants() {
  const auto all = all_loops();
  return {all.begin(), all.end()};
}

}  // namespace crumb::testing
