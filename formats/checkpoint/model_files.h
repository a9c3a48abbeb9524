// What makes a model's folder complete beside its tensors: configuration, tokenizer, modules.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace crumb {

/// The names that such files have, sorted, with '/': those known from Hugging Face, and those in the folders that
/// sentence-transformers' modules.json names. Not all of them need exist. A Failure where modules.json is no list
/// of modules, or names a folder outside.
Result<std::vector<std::string>> model_file_names(const std::filesystem::path& folder);

/// What the folder holds itself but for `known` and hidden files, sorted; folders end in '/', and one that holds
/// anything known is left out. Best effort: empty where it cannot be read.
std::vector<std::string> files_but(const std::filesystem::path& folder,
                                   const std::vector<std::filesystem::path>& known);

/// Present under this name, be it as a link that leads nowhere (which its reader then reports).
bool is_present(const std::filesystem::path& path);

}  // namespace crumb
