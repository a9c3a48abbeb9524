#include "base/files/new_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/partial.h"
#include "base/files/text.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

Error cannot_make(const fs::path& folder, const std::string& why) {
  return Error("cannot make the folder " + quote_text(folder.native()) + ": " + why);
}

Error is_being_made(const fs::path& folder, const fs::path& building, const struct stat& info) {
  return cannot_make(folder, "another run is writing it now (" + quote_text(building.native()) +
                                 " is locked by " + holder_of_lock(info) + ")");
}

Error is_foreign_folder(const fs::path& folder, const fs::path& building) {
  return Error(quote_text(folder.native()) + " is first made as " + quote_text(building.native()) +
               ", which exists and which no run of crumb left there; move it away or choose another output");
}

bool exists_there(const fs::path& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0;
}

bool is_empty_folder(const fs::path& path) {
  std::error_code error;
  const bool is_empty = fs::is_empty(path, error);
  return !error && is_empty;
}

/// Flushes a folder to the disk; some file systems cannot flush folders.
void flush_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  const int flushed = ::fsync(fd);
  const int code = errno;
  ::close(fd);
  if (flushed != 0 && code == EIO) throw cannot_make(folder, errno_text(code));
}

/// Resolves "folder/" and links to folders; parts that do not exist yet stay as they were typed.
fs::path resolved_target(fs::path target) {
  if (target.empty()) throw usage_error("the output '' is no folder: a name is expected");
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  if (fs::is_directory(status)) {
    fs::path real = fs::canonical(target, error);
    if (error) throw cannot_make(target, error.message());
    return real;
  }
  if (!target.has_filename()) target = target.parent_path();
  if (fs::is_symlink(fs::symlink_status(target, error)) && !fs::exists(status))
    throw cannot_make(target, "it is a symbolic link to nothing");
  return target;
}

fs::path parent_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

/// Whether something is mounted on the folder, which then keeps its name.
bool is_mount_point(const fs::path& folder) {
  struct statx info = {};
  if (::statx(AT_FDCWD, folder.c_str(), 0, STATX_BASIC_STATS, &info) != 0) return false;
  return (info.stx_attributes_mask & info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/// Refuses a folder that is to be replaced where it holds an input under another name.
void refuse_inputs_below(const fs::path& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    refuse_input(it->path());
}

/// Checks a target before anything is made there.
void check_place(const fs::path& target, const fs::path& typed, const NewFolder::CheckOwn& check_own) {
  std::error_code error;
  if (fs::exists(target, error)) {
    const bool is_folder = fs::is_directory(target, error);
    if (is_folder && is_mount_point(target))
      throw cannot_make(typed,
                        "a file system is mounted there, which cannot be replaced as a whole; give a "
                        "folder inside it, " +
                            quote_text((typed / "NAME").native()));
    if (!is_folder || (!is_empty_folder(target) && !check_own)) {
      throw usage_error("the output " + quote_text(typed.native()) +
                        " exists and is no empty folder; choose another, or remove it");
    }
    if (!is_empty_folder(target)) {
      const OwnFiles own;
      refuse_inputs_below(target);
      check_own(target);
    }
  }
  fs::path parent = parent_of(target);
  while (!fs::exists(parent, error) && parent.has_parent_path()) parent = parent_of(parent);
  if (fs::exists(parent, error) && !fs::is_directory(parent, error))
    throw cannot_make(typed, quote_text(parent.native()) + " is a file");
  if (::access(parent.c_str(), W_OK | X_OK) != 0)
    throw cannot_make(typed, "the folder " + quote_text(parent.native()) + ": " + errno_text(errno));
}

void check_building(const struct stat& info, const fs::path& building, const fs::path& typed) {
  if (!S_ISDIR(info.st_mode) || (!is_marked_partial(info) && !is_empty_folder(building)))
    throw is_foreign_folder(typed, building);
}

}  // namespace

NewFolder::NewFolder(fs::path target, CheckOwn check_own)
    : typed_(std::move(target)),
      target_(resolved_target(typed_)),
      building_(partial_path_of(target_)),
      check_own_(std::move(check_own)) {
  announce_output_folder(typed_, {building_});
  put_back_old();
  check_place(target_, typed_, check_own_);
  try {
    make_parents();
    make_building();
  } catch (...) {
    remove_made();
    throw;
  }
}

NewFolder::~NewFolder() {
  if (fd_ >= 0) remove_made();
}

fs::path NewFolder::aside() const {
  fs::path path = building_;
  return path += ".old";
}

/// Repairs what a run left that was killed between its two renames.
void NewFolder::put_back_old() {
  struct stat info = {};
  if (exists_there(target_) || ::lstat(aside().c_str(), &info) != 0) return;
  if (!S_ISDIR(info.st_mode) || !is_marked_partial(info)) throw is_foreign_folder(typed_, aside());
  if (::rename(aside().c_str(), target_.c_str()) != 0) throw cannot_make(typed_, errno_text(errno));
  ::chmod(target_.c_str(), info.st_mode & 07777 & ~kPartialMark);
}

void NewFolder::make_parents() {
  std::vector<fs::path> missing;
  for (fs::path at = parent_of(target_); !exists_there(at); at = parent_of(at)) missing.push_back(at);
  for (auto path = missing.rbegin(); path != missing.rend(); ++path) {
    if (::mkdir(path->c_str(), 0777) == 0)
      parents_.push_back(*path);
    else if (errno != EEXIST)
      throw cannot_make(*path, errno_text(errno));
  }
}

void NewFolder::make_building() {
  // Between making or opening the folder and locking it, another run may finish and rename it: then the
  // attempt starts again.
  for (;;) {
    if (::mkdir(building_.c_str(), 0777 | kPartialMark) != 0 && errno != EEXIST)
      throw cannot_make(building_, errno_text(errno));
    const int fd = ::open(building_.c_str(), kOpenFolder);
    if (fd < 0 && errno == ENOENT) continue;
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) throw is_foreign_folder(typed_, building_);
    if (fd < 0) throw cannot_make(building_, errno_text(errno));
    try {
      if (take_building(fd)) return;
    } catch (...) {
      ::close(fd);
      throw;
    }
    ::close(fd);
  }
}

/// Whether the opened folder is now ours, and empty.
bool NewFolder::take_building(int fd) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) throw cannot_make(building_, errno_text(errno));
  if (lock_now(fd, building_) == LockState::kBusy) throw is_being_made(typed_, building_, info);
  if (!is_still_named(fd, building_)) return false;
  check_building(info, building_, typed_);
  set_partial_mark(fd, true);
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator it(building_, error), end; !error && it != end; it.increment(error))
    left.push_back(it->path());
  for (const fs::path& path : left) {
    if (!error) fs::remove_all(path, error);
  }
  if (error) throw cannot_make(building_, error.message());
  note_made(fd);
  fd_ = fd;
  return true;
}

void NewFolder::remove_made() noexcept {
  std::error_code ignored;
  if (fd_ >= 0) {
    if (is_still_named(fd_, building_)) fs::remove_all(building_, ignored);
    ::close(std::exchange(fd_, -1));
  }
  for (auto path = parents_.rbegin(); path != parents_.rend(); ++path)
    fs::remove(*path, ignored);  // only if it is empty
  parents_.clear();
}

void NewFolder::commit() {
  if (fd_ < 0) throw Error("the folder " + quote_text(typed_.native()) + " is already complete");
  refuse_input_folder(target_, typed_);
  check_place(target_, typed_, check_own_);
  flush_folder(building_);
  if (::rename(building_.c_str(), target_.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) throw cannot_make(typed_, errno_text(errno));
    replace_old();
  }
  set_partial_mark(fd_, false);
  ::close(std::exchange(fd_, -1));
  flush_folder(parent_of(target_));
}

void NewFolder::replace_old() {
  // The old folder gets the mark and a lock before it gets a name under which it may be removed.
  const int old = ::open(target_.c_str(), kOpenFolder);
  if (old < 0) throw cannot_make(typed_, errno_text(errno));
  try {
    if (lock_now(old, target_) == LockState::kBusy)
      throw cannot_make(typed_, "another run is working in it now");
    set_partial_mark(old, true);
    fs::path gone = building_;
    if (::renameat2(AT_FDCWD, building_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
      if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
        throw cannot_make(typed_, errno_text(errno));
      gone = aside();
      struct stat left = {};
      std::error_code ignored;
      if (::lstat(gone.c_str(), &left) == 0 && is_marked_partial(left)) fs::remove_all(gone, ignored);
      if (::rename(target_.c_str(), gone.c_str()) != 0) throw cannot_make(typed_, errno_text(errno));
      if (::rename(building_.c_str(), target_.c_str()) != 0) {
        const int code = errno;
        (void)::rename(gone.c_str(), target_.c_str());
        throw cannot_make(typed_, errno_text(code));
      }
    }
    std::error_code error;
    fs::remove_all(gone, error);
  } catch (...) {
    set_partial_mark(old, false);
    ::close(old);
    throw;
  }
  ::close(old);
}

void expect_parent_folder(const fs::path& target) {
  const fs::path named = target.has_filename() ? target : target.parent_path();
  std::error_code error;
  if (!fs::is_directory(parent_of(named), error))
    throw cannot_make(target, errno_text(fs::exists(parent_of(named), error) ? ENOTDIR : ENOENT));
}

void claim_new_folder(const fs::path& target, const NewFolder::CheckOwn& check_own) {
  const fs::path real = resolved_target(target);
  const fs::path building = partial_path_of(real);
  announce_output_folder(target, {building});
  check_place(real, target, check_own);
  struct stat info = {};
  if (::lstat(building.c_str(), &info) != 0) return;
  if (is_locked(info)) throw is_being_made(target, building, info);
  check_building(info, building, target);
}

}  // namespace crumb
