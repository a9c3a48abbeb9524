// Files that a job writes into a folder, whose other files stay.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <vector>

namespace crumb::jobs {

/// Checks the files before anything is read. Throws usage Error where one of them is an input, Error where
/// the folder cannot be written to; skips empty paths.
void claim_folder_files(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& folder,
                        std::initializer_list<const char*> written);

}  // namespace crumb::jobs
