// The files that a verb reads when it is given a model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace crumb::cli {

/// Returns the path itself, and for a folder or another checkpoint every file that it is read from: none of
/// them may be written.
std::vector<std::filesystem::path> model_inputs(const std::string& model);

}  // namespace crumb::cli
