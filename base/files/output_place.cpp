#include "base/files/output_place.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/partial.h"
#include "base/files/text.h"

namespace crumb {

namespace fs = std::filesystem;

void claim_output(const fs::path& target, LeftOver left_over, std::vector<fs::path> beside) {
  check_output(target, left_over);
  beside.push_back(partial_path_of(resolve_output(target)));
  announce_output(target, beside);
}

void check_output_folder(const fs::path& folder) {
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, error))
    throw Error("cannot make the folder " + quote_text(folder.native()) + ": " + quote_text(there.native()) +
                " is a file");
  if (::access(there.c_str(), W_OK | X_OK) != 0)
    throw Error("cannot write into the folder " + quote_text(there.native()) + ": " + errno_text(errno));
}

void require_space(const fs::path& path, std::uint64_t bytes, std::uint64_t largest_file) {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      largest_file > limit.rlim_cur)
    throw Error("cannot write " + quote_text(path.native()) + ": " + errno_text(EFBIG) + ": it takes " +
                byte_text(largest_file) + ", and this process may write " + byte_text(limit.rlim_cur) +
                " into a file (ulimit -f)");
  std::error_code ignored;
  fs::path folder = fs::absolute(path, ignored);
  while (!fs::is_directory(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  struct statvfs disk = {};
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) return;  // some file systems do not count
  const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (bytes > free)
    throw Error("cannot write " + quote_text(path.native()) + ": " + errno_text(ENOSPC) + ": it takes " +
                byte_text(bytes) + ", and " + byte_text(free) + " are free in " +
                quote_text(folder.native()));
}

}  // namespace crumb
