// What verbs that write a model's folder have in common: the size of its files, and what is said of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "export/folder/model_folder.h"

namespace crumb::cli {

/// As Hugging Face has it.
inline constexpr const char* kUsualShard = "5GB";

/// What a flag says ("2GB", "500MiB"); 0 where it is empty. Throws usage Error, which names the flag.
std::uint64_t shard_bytes_of(const std::string& size, const std::string& flag);

/// Throws usage Error where the output's name ends as that of another kind of file does, but `allowed`, and says what is written
/// (`what`: "a folder is written"). A folder that is there may have any name.
void refuse_ending(const std::string& output, const std::string& what, std::string_view allowed = "");

/// What is to be known of the folder before anything is read: throws usage Error for an ending of another kind, and what
/// claim_new_folder() does. What the folder holds is looked at when it is known what would be written.
void claim_folder(const std::string& input, const std::string& folder);

/// exporting::write_folder with progress on stderr (`doing`: "dequantizing"), behind a note of tensors larger than
/// `limit`, which is the size as it was given.
exporting::FolderReport write_folder_with_notes(const exporting::FolderContent& content,
                                                const std::string& folder, exporting::FolderOptions options,
                                                const std::string& doing, const std::string& limit);

}  // namespace crumb::cli
