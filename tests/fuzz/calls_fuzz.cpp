// Calls of the C interface, some twenty in a row, in any order and with any sizes: calls.h says what they must keep.
#include "tests/fuzz/calls.h"
#include "tests/fuzz/fuzz.h"

namespace crumb::testing {

void fuzz(std::span<const std::byte> input) {
  static const Calls calls;
  (void)calls.play(input);
}

}  // namespace crumb::testing
