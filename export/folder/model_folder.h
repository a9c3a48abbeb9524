// Writing a model's folder: safetensors files of a limited size with an index, and the files that make it
// complete. One tensor's piece is in memory at a time. The index comes last: without it a folder of several
// tensor files is not complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "export/folder/folder_content.h"

namespace crumb::exporting {

struct FolderOptions {
  std::uint64_t shard_bytes = 0;  ///< of a tensor file, at most; a tensor is never cut. More than 0.
  int threads = 0;
  std::filesystem::path input;  ///< what is read: never replaced
  std::map<std::string, std::string>
      metadata;  ///< of the tensor files: by it a later run knows its own again
  std::function<void(std::size_t done, std::size_t tensors)> progress =
      {};  ///< after each tensor; may be empty
  std::function<void(const std::filesystem::path& written)> check =
      {};  ///< of the folder before it gets its name; what it throws ends the run. May be empty
};

struct FolderReport {
  std::size_t tensors = 0;
  std::size_t files = 0;  ///< that tensors lie in
  std::size_t large = 0;  ///< tensors above shard_bytes
  std::string largest;    ///< the largest of those
  std::uint64_t largest_bytes = 0;
};

/// What a run of this description would write, without a look at bytes.
FolderReport plan_folder(const FolderContent& content, const FolderOptions& options);

/// Writes the folder, which appears whole or not at all (base/files/new_folder.h). One that exists may hold
/// nothing but what an earlier run with the same metadata wrote there: tensor files of the same names that
/// say so themselves, and other files that would not change; it stays as it is until the new one replaces it.
/// Throws Error: on a folder that holds other things or an input, on files of the model that would pose as
/// tensor files, on damaged bytes, on a disk that is full, on an interruption.
FolderReport write_folder(const FolderContent& content, const std::filesystem::path& folder,
                          const FolderOptions& options);

}  // namespace crumb::exporting
