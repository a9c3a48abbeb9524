// The files of a model's folder that hold no tensors: configuration, tokenizer, modules.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace crumb {

/// Their names, sorted, with '/': those known from Hugging Face, and those in the folders that
/// sentence-transformers' modules.json names. Not all of them need exist. A Failure where modules.json is no
/// list of modules, or names a folder outside.
Result<std::vector<std::string>> model_file_names(const std::filesystem::path& folder);

/// The folders, without '/' at the end, of the Dense modules in its modules.json, whose model.safetensors or
/// pytorch_model.bin holds tensors of the model ("2_Dense/linear.weight" for a module 2_Dense). Sorted. A
/// Failure as above.
Result<std::vector<std::string>> dense_module_folders(const std::filesystem::path& folder);

/// The folder's own files except for `known` and hidden ones, sorted. Folders end in '/', and one that holds
/// anything known is left out. Best effort: empty where the folder cannot be read.
std::vector<std::string> files_but(const std::filesystem::path& folder,
                                   const std::vector<std::filesystem::path>& known);

/// Whether there is a directory entry of this name, even a link that leads nowhere (which its reader then
/// reports).
bool is_present(const std::filesystem::path& path);

}  // namespace crumb
