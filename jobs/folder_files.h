// Files that a job writes into a folder, which keeps what else it holds.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <vector>

namespace crumb::jobs {

/// Before anything is read. Throws usage Error where one of the files is an input, Error where the folder
/// cannot be written to; empty paths are none.
void claim_folder_files(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& folder,
                        std::initializer_list<const char*> written);

}  // namespace crumb::jobs
