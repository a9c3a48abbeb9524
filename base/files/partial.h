// What shows that an unfinished file or folder is Crumb's: its mark, and its lock.
//
// The mark is the sticky bit, which file systems keep and which means nothing else on files (`-rw-r--r-T`). A
// new file has it from the first moment, a killed run leaves it, and commit() removes it after the rename. A
// file of such a name without the mark is somebody else's, and stays.
//
// The lock is flock's: it ends with the process that holds it, so that files of a killed run are free.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace crumb {

/// Part of a new file's mode.
inline constexpr mode_t kPartialMark = S_ISVTX;

/// Returns the path until the rename: "X.partial".
std::filesystem::path partial_path_of(const std::filesystem::path& target);

inline bool is_marked_partial(const struct stat& info) { return (info.st_mode & kPartialMark) != 0; }

/// Sets or removes the mark of an open file or folder. Returns whether the file system did so.
bool set_partial_mark(int fd, bool marked);

enum class LockState { kTaken, kBusy, kUnknown };

/// Locks an open file, if nobody else has. Returns kUnknown where the file system has no locks: a run goes on
/// without. Throws Error with `path` for other failures.
LockState lock_now(int fd, const std::filesystem::path& path);

/// Returns who has locked it: "process 1234", or "another process" where the system does not tell.
std::string holder_of_lock(const struct stat& info);

/// Whether somebody has locked the file, without locking it. False where the system does not tell.
bool is_locked(const struct stat& info);

/// Whether `path` still names the open file.
bool is_still_named(int fd, const std::filesystem::path& path);

}  // namespace crumb
