// Where the data sets of crumb train's tasks lie.
#pragma once

#include <filesystem>
#include <string>

namespace crumb::cli {

/// The folder that the flag --data-dir names; without one $CRUMB_DATA, or the folder that scripts/setup
/// fills.
std::filesystem::path data_folder(const std::string& flag = "");

}  // namespace crumb::cli
