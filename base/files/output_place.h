// Checks the paths of outputs before any work is done for them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/files/output_file.h"

namespace crumb {

/// Returns the file that OutputFile replaces or makes: the one that a symbolic link to a file points to, else
/// the path as it is. Throws Error for a path in a missing folder, and for one that exists and is not a
/// regular file.
std::filesystem::path resolve_output(const std::filesystem::path& target);

/// Throws the Error that OutputFile would throw for this target, without changing anything: for a folder that
/// cannot be written to, for another run that writes there, and for a partial file that is somebody else's.
void check_output(const std::filesystem::path& target, LeftOver left_over = LeftOver::kDiscard);

/// The same, and announces the file as an output, with what is written `beside` it (base/files/inputs.h): for
/// verbs, before they read anything.
void claim_output(const std::filesystem::path& target, LeftOver left_over = LeftOver::kDiscard,
                  std::vector<std::filesystem::path> beside = {});

/// Throws Error unless files can be written into the folder, or it can be made: for folders that keep their
/// files.
void check_output_folder(const std::filesystem::path& folder);

/// Throws Error where `bytes` more do not fit next to `path`: on the disk, or in a file within this process's
/// limit (ulimit -f).
void require_space(const std::filesystem::path& path, std::uint64_t bytes, std::uint64_t largest_file);

}  // namespace crumb
