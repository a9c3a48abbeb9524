#pragma once

#include <string>
#include <vector>

namespace crumb::cli {

/// Runs a command line (without the program's name). Returns the exit code: 0 done, 1 failed, 2 wrong usage,
/// 3 a condition of --fail-if holds, 130 interrupted. Prints results, help and errors.
int run(const std::vector<std::string>& arguments);

}  // namespace crumb::cli
