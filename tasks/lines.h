// Lines of text for reading: digits side by side, as they were written, with gaps of chance.
#pragma once

#include <cstdint>

#include "tasks/samples.h"

namespace crumb::tasks {

inline constexpr std::int64_t kLineColumns = 56, kLineRows = 8, kMostDigits = 6;

/// Lines of 3 to 6 digits drawn from `digits` (inputs of 64 pixels), each behind 0 to 2 empty columns; the rest of
/// kLineColumns is empty. Inputs [56, 8]: columns from left to right. Labels: kMostDigits for each line, -1 behind the
/// last digit (so Samples::size() is not the number of lines).
Samples make_lines(const Samples& digits, std::size_t lines, std::uint64_t seed);

}  // namespace crumb::tasks
