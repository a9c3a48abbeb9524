#include "base/files/partial.h"

#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"

namespace crumb {
namespace {

/// Returns the process that holds flock's lock, as the kernel lists it: "1: FLOCK ADVISORY WRITE 1234
/// fe:00:5678 0 EOF". 0 where there is none, or it is in another container.
long holder_in_list(const struct stat& info) {
  char inode[64];
  std::snprintf(inode, sizeof inode, "%02x:%02x:%llu", major(info.st_dev), minor(info.st_dev),
                static_cast<unsigned long long>(info.st_ino));
  std::ifstream list("/proc/locks");
  for (std::string line; std::getline(list, line);) {
    if (line.find(" -> ") != std::string::npos) continue;  // this process waits for the lock
    std::istringstream words(line);
    std::string number, kind, mode, access, file;
    long process = 0;
    if (words >> number >> kind >> mode >> access >> process >> file && kind == "FLOCK" && file == inode)
      return process;
  }
  return 0;
}

}  // namespace

std::filesystem::path partial_path_of(const std::filesystem::path& target) {
  std::filesystem::path path = target;
  return path += ".partial";
}

bool set_partial_mark(int fd, bool marked) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return false;
  const mode_t rights = info.st_mode & 07777;
  const mode_t wanted = marked ? rights | kPartialMark : rights & ~kPartialMark;
  return wanted == rights || ::fchmod(fd, wanted) == 0;
}

LockState lock_now(int fd, const std::filesystem::path& path) {
  int locked = 0;
  do {
    locked = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (locked != 0 && errno == EINTR);
  if (locked == 0) return LockState::kTaken;
  if (errno == EWOULDBLOCK) return LockState::kBusy;
  if (errno == ENOLCK || errno == ENOTSUP || errno == ENOSYS) return LockState::kUnknown;
  throw Error("cannot lock " + quote_text(path.native()) + ": " + errno_text(errno));
}

std::string holder_of_lock(const struct stat& info) {
  const long process = holder_in_list(info);
  return process > 0 ? "process " + std::to_string(process) : "another process";
}

bool is_locked(const struct stat& info) { return holder_in_list(info) != 0; }

bool is_still_named(int fd, const std::filesystem::path& path) {
  struct stat held = {};
  struct stat named = {};
  return ::fstat(fd, &held) == 0 && ::lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

}  // namespace crumb
