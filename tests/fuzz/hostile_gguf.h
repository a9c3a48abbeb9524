// Hostile GGUF files.
#pragma once

#include <string>
#include <string_view>

#include "tests/fuzz/hostile.h"

namespace crumb::testing {

/// Of a file whose header is sound: hostile numbers as metadata, lengths and sizes, other types, entries taken out, tensors
/// under names that mean something, shapes whose product wraps; then offsets that follow one another, and as much data as
/// they need, or not.
std::string hostile_gguf(std::string_view file, Random& random);

}  // namespace crumb::testing
