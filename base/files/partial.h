// What tells a file or folder on its way to be Crumb's: its mark, and its lock.
//
// The mark is the sticky bit, which file systems keep and which means nothing else on files (`-rw-r--r-T`). What is created
// has it from the first moment, a killed run leaves it, and commit() takes it away behind the rename. What lies under such a
// name without the mark is somebody else's, and stays.
//
// The lock is flock's: it ends with the process that holds it, so that what a killed run left is free.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace crumb {

/// In the mode of what is created.
inline constexpr mode_t kPartialMark = S_ISVTX;

/// Where it lies until it has its name: "X.partial".
std::filesystem::path partial_path_of(const std::filesystem::path& target);

inline bool is_marked_partial(const struct stat& info) { return (info.st_mode & kPartialMark) != 0; }

/// Of a file or folder that is open: sets the mark, or takes it away. Whether the file system did.
bool set_partial_mark(int fd, bool marked);

enum class LockState { kTaken, kBusy, kUnknown };

/// Locks what is open, if nobody else has. kUnknown where the file system knows no locks: a run goes on without. Throws Error
/// with `path` for other failures.
LockState lock_now(int fd, const std::filesystem::path& path);

/// Who has locked it: "process 1234", or "another process" where the system does not tell.
std::string holder_of_lock(const struct stat& info);

/// Whether somebody has locked what lies there, without locking it. False where the system does not tell.
bool is_locked(const struct stat& info);

/// Whether what is open is what the name means now.
bool is_still_named(int fd, const std::filesystem::path& path);

}  // namespace crumb
