// An input that is one whole number.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/operator.h"

namespace crumb::runtime {

/// Throws Error where the input is of floats, or has not one element; it says `what` was expected.
inline std::int64_t one_integer(const Call& call, std::size_t i, const char* what) {
  const Ints numbers = call.ints(i);
  if (numbers.size() != 1) call.fail("expected one " + std::string(what) + ", found " + text_of(call.in(i)));
  return numbers[0];
}

}  // namespace crumb::runtime
