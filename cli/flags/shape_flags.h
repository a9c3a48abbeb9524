// --shape NAME=1x128: shapes for inputs whose dimensions a graph leaves open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace crumb::cli {

inline constexpr const char* kShapeHelp =
    "NAME=1x128, the shape of an input, once for each; open dimensions are 1 otherwise";

/// Returns shapes by name. Throws Error (wrong usage) that says what was found and what was expected.
std::map<std::string, std::vector<std::int64_t>> read_shapes(const std::vector<std::string>& requests);

}  // namespace crumb::cli
