// Synthetic lines of text for reading: handwritten digits next to each other, with random gaps.
#pragma once

#include <cstdint>

#include "tasks/samples.h"

namespace crumb::tasks {

inline constexpr std::int64_t kLineColumns = 56, kLineRows = 8, kMostDigits = 6;

/// Makes lines of 3 to 6 random digits from `digits` (inputs of 64 pixels), each after 0 to 2 empty columns;
/// the rest of kLineColumns is empty. Inputs [56, 8]: columns from left to right. Labels: kMostDigits for
/// each line, -1 after the last digit (so Samples::size() is not the number of lines).
Samples make_lines(const Samples& digits, std::size_t lines, std::uint64_t seed);

}  // namespace crumb::tasks
