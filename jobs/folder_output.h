// What jobs that write a model's folder share: the size of its files, the type of its floats, and the notes
// on it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "export/folder/model_folder.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// Hugging Face's default.
inline constexpr const char* kUsualShard = "5GB";

/// Returns the bytes that `shard` says ("2GB", "500MiB"); 0 where it is empty. Throws usage Error, which
/// names the field.
std::uint64_t shard_bytes_of(const std::string& shard, const Observer& observer);

/// Throws usage Error where the output's name has the ending of another kind of file, except `allowed`; the
/// message says what is written (`what`: "a folder is written"). An existing folder may have any name.
void refuse_ending(const std::string& output, const std::string& what, const Observer& observer,
                   std::string_view allowed = "");

/// Checks the folder before anything is read: throws usage Error where its name has the ending of another
/// kind of file, and whatever claim_new_folder() throws. What the folder holds is checked later, once it is
/// known what would be written.
void claim_folder(const std::string& input, const std::string& folder, const Observer& observer);

/// Calls exporting::write_folder and tells the observer the progress (`doing`: "dequantizing"); before that
/// it notes tensors larger than `shard`, which is the size as the user gave it.
exporting::FolderReport write_folder_with_notes(const exporting::FolderContent& content,
                                                const std::string& folder, exporting::FolderOptions options,
                                                const std::string& doing, const std::string& shard,
                                                Observer& observer);

/// Calls `write` with the content, its floats rounded to `dtype` (f32, f16, bf16; "": unchanged). Returns
/// what rounding cost, for a note; "" where it changed nothing. Throws usage Error, which names the field,
/// for another type.
std::string write_with_dtype(const exporting::FolderContent& content, const std::string& dtype,
                             const Observer& observer,
                             const std::function<void(const exporting::FolderContent&)>& write);

}  // namespace crumb::jobs
