// Hostile packed files.
#pragma once

#include <string>
#include <string_view>

#include "tests/fuzz/hostile.h"

namespace crumb::testing {

/// Writes hostile numbers anywhere into the header (offsets, sizes, shapes, blocks, exponents), adds and changes blobs, lays
/// blobs out one behind the other modulo 2^64, so that sizes may come to the file's, and makes the preamble's lengths and
/// all checksums right.
std::string hostile_packed_file(std::string_view file, Random& random);

}  // namespace crumb::testing
