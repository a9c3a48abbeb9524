// What jobs that write a model's folder have in common: the size of its files, the type of its floats, and
// what is said of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "export/folder/model_folder.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// As Hugging Face has it.
inline constexpr const char* kUsualShard = "5GB";

/// What `shard` says ("2GB", "500MiB"); 0 where it is empty. Throws usage Error, which names the field.
std::uint64_t shard_bytes_of(const std::string& shard, const Observer& observer);

/// Throws usage Error where the output's name ends as that of another kind of file does, but `allowed`, and
/// says what is written (`what`: "a folder is written"). A folder that is there may have any name.
void refuse_ending(const std::string& output, const std::string& what, const Observer& observer,
                   std::string_view allowed = "");

/// What is to be known of the folder before anything is read: throws usage Error for an ending of another
/// kind, and what claim_new_folder() does. What the folder holds is looked at when it is known what would be
/// written.
void claim_folder(const std::string& input, const std::string& folder, const Observer& observer);

/// exporting::write_folder, which tells the observer how far it is (`doing`: "dequantizing") and, before
/// that, of tensors larger than `shard`, which is the size as it was given.
exporting::FolderReport write_folder_with_notes(const exporting::FolderContent& content,
                                                const std::string& folder, exporting::FolderOptions options,
                                                const std::string& doing, const std::string& shard,
                                                Observer& observer);

/// Calls `write` with the content, its floats rounded to `dtype` (f32, f16, bf16; "": as they come). Gives
/// what rounding cost, for a note; empty where it changed nothing. Throws usage Error of another type, which
/// names the field.
std::string write_with_dtype(const exporting::FolderContent& content, const std::string& dtype,
                             const Observer& observer,
                             const std::function<void(const exporting::FolderContent&)>& write);

}  // namespace crumb::jobs
