// Hostile zip archives.
#pragma once

#include <string>
#include <string_view>

#include "tests/fuzz/hostile.h"

namespace crumb::testing {

/// Puts the members that lie in a file into an archive again, with hostile numbers for sizes, offsets, counts and lengths:
/// in the fields of 16 and 32 bits or in zip64 records, alike in a member's two headers or in one of them, with sums that
/// wrap to where the directory lies; all other numbers and checksums are right.
std::string hostile_zip(std::string_view file, Random& random);

}  // namespace crumb::testing
