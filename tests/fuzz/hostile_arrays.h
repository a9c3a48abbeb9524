// Hostile safetensors and .npy files.
#pragma once

#include <string>
#include <string_view>

#include "tests/fuzz/hostile.h"

namespace crumb::testing {

/// Writes hostile numbers into shapes and data_offsets, shapes whose product wraps to a tensor's size, offsets that follow
/// one another modulo 2^64, and makes the header's length and the file's right.
std::string hostile_safetensors(std::string_view file, Random& random);

/// Writes hostile numbers into the header, or a shape whose product wraps to the array's size, and makes the header's length
/// right, or puts a hostile one there.
std::string hostile_npy(std::string_view file, Random& random);

}  // namespace crumb::testing
