// The folder of data sets for crumb train's tasks.
#pragma once

#include <filesystem>
#include <string>

namespace crumb::cli {

/// Returns the folder that the flag --data-dir names; without the flag $CRUMB_DATA, or the folder that
/// scripts/setup fills.
std::filesystem::path data_folder(const std::string& flag = "");

}  // namespace crumb::cli
