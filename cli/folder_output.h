// What verbs that write a model's folder share: the size limit of its files, and notes about it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "export/folder/model_folder.h"

namespace crumb::cli {

/// Hugging Face's default.
inline constexpr const char* kUsualShard = "5GB";

/// Returns the bytes that a flag gives ("2GB", "500MiB"); 0 where it is empty. Throws usage Error, which
/// names the flag.
std::uint64_t shard_bytes_of(const std::string& size, const std::string& flag);

/// Throws usage Error where the output's name has the ending of another kind of file, except `allowed`; the
/// message says what is written (`what`: "a folder is written"). A folder that exists may have any name.
void refuse_ending(const std::string& output, const std::string& what, std::string_view allowed = "");

/// Checks the folder before anything is read: throws usage Error for an ending of another kind, and what
/// claim_new_folder() throws. The folder's contents are checked later, when it is known what would be
/// written.
void claim_folder(const std::string& input, const std::string& folder);

/// Calls exporting::write_folder with progress on stderr (`doing`: "dequantizing"), after a note on tensors
/// larger than `limit`, which is the size as it was given.
exporting::FolderReport write_folder_with_notes(const exporting::FolderContent& content,
                                                const std::string& folder, exporting::FolderOptions options,
                                                const std::string& doing, const std::string& limit);

}  // namespace crumb::cli
