#include "base/files/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/files/interrupt.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const fs::path& path, const std::string& why) {
  return Error("cannot write " + quote_text(path.native()) + ": " + why);
}

fs::path resolve_target(const fs::path& target) {
  if (target.empty() || !target.has_filename()) throw cannot_write(target, "a file name is expected");
  struct stat info = {};
  if (::stat(target.c_str(), &info) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) throw cannot_write(target, errno_text(errno));
    const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored))
      throw cannot_write(target, "the folder " + quote_text(folder.native()) + " does not exist");
    return target;
  }
  if (S_ISDIR(info.st_mode)) throw cannot_write(target, "it is a folder, a file name is expected");
  if (!S_ISREG(info.st_mode)) throw cannot_write(target, "it exists and is not a regular file");
  std::error_code error;
  fs::path real = fs::canonical(target, error);
  if (error) throw cannot_write(target, error.message());
  return fs::is_symlink(fs::symlink_status(target)) ? real : target;
}

/// Where a file system knows no locks, a run goes on without.
bool locks_unknown(int code) { return code == ENOLCK || code == ENOTSUP || code == ENOSYS; }

}  // namespace

OutputFile::OutputFile(const fs::path& target, LeftOver left_over)
    : target_(resolve_target(target)), partial_(target_) {
  partial_ += ".partial";
  open_and_lock(left_over);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : target_(std::move(other.target_)),
      partial_(std::move(other.partial_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      flushing_(other.flushing_),
      failed_(other.failed_),
      keeps_partial_(other.keeps_partial_) {}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  if (!keeps_partial_) ::unlink(partial_.c_str());
  ::close(fd_);
}

void OutputFile::open_and_lock(LeftOver left_over) {
  // Between opening and locking, another run may finish and rename the file that was opened: then its name
  // means another file or none, and the attempt starts again.
  for (;;) {
    const int fd = ::open(partial_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) throw cannot_write(partial_, errno_text(errno));
    int locked = 0;
    do {
      locked = ::flock(fd, LOCK_EX | LOCK_NB);
    } while (locked != 0 && errno == EINTR);
    const int lock_error = locked == 0 ? 0 : errno;
    struct stat held = {};
    struct stat named = {};
    const bool statted = ::fstat(fd, &held) == 0;
    const bool same = statted && ::lstat(partial_.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
                      held.st_dev == named.st_dev;
    if (lock_error != 0 && !locks_unknown(lock_error)) {
      ::close(fd);
      if (lock_error == EWOULDBLOCK)
        throw cannot_write(target_,
                           "another run is writing it now (" + quote_text(partial_.native()) + " is locked)");
      throw cannot_write(partial_, errno_text(lock_error));
    }
    if (!same) {
      ::close(fd);
      continue;
    }
    if (!S_ISREG(held.st_mode)) {
      ::close(fd);
      throw cannot_write(partial_, "it exists and is not a regular file");
    }
    fd_ = fd;
    if (left_over == LeftOver::kContinue) {
      size_ = static_cast<std::uint64_t>(held.st_size);
      return;
    }
    if (::ftruncate(fd_, 0) != 0) {
      const int code = errno;
      ::close(std::exchange(fd_, -1));
      throw cannot_write(partial_, errno_text(code));
    }
    return;
  }
}

void OutputFile::require_usable() const {
  if (fd_ < 0) throw Error("cannot write " + quote_text(target_.native()) + ": it is already complete");
  if (failed_) throw Error("cannot write " + quote_text(target_.native()) + ": an earlier write failed");
}

void OutputFile::fail(const char* what, int code) {
  failed_ = true;
  throw Error(std::string("cannot ") + what + " " + quote_text(target_.native()) + ": " + errno_text(code));
}

void OutputFile::append(std::span<const std::byte> bytes) { write_at(size_, bytes); }

void OutputFile::shrink_to(std::uint64_t size) {
  require_usable();
  if (size > size_)
    throw Error("shrink_to " + std::to_string(size) + " of " + std::to_string(size_) + " bytes");
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) fail("truncate", errno);
  size_ = size;
  flushing_ = std::min(flushing_, size_);
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  constexpr std::size_t kSlice = std::size_t{8} << 20;
  require_usable();
  if (heeds_interrupts_) check_interrupt();
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(fd_, bytes.data(), std::min(bytes.size(), kSlice), static_cast<off_t>(offset));
    if (heeds_interrupts_) check_interrupt();
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", errno);
    if (written == 0) fail("write", ENOSPC);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ = std::max(size_, offset);
  }
  start_writeback();
}

/// Asks the system to begin writing out what is complete, so that commit() has little left to wait for.
void OutputFile::start_writeback() {
  constexpr std::uint64_t kPiece = std::uint64_t{32} << 20;
  if (size_ < flushing_ + kPiece) return;
  ::sync_file_range(fd_, static_cast<off_t>(flushing_), static_cast<off_t>(size_ - flushing_),
                    SYNC_FILE_RANGE_WRITE);
  flushing_ = size_;
}

void OutputFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  require_usable();
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw Error("cannot read back " + quote_text(partial_.native()) + ": " +
                  (count < 0 ? errno_text(errno) : "it ends at byte " + std::to_string(offset)));
    }
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

void OutputFile::pad_to(std::uint64_t alignment) {
  constexpr std::array<std::byte, 64> kZeros = {};
  std::uint64_t missing = (alignment - size_ % alignment) % alignment;
  while (missing > 0) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(missing, kZeros.size()));
    append(std::span(kZeros).first(part));
    missing -= part;
  }
}

void OutputFile::commit() {
  require_usable();
  if (heeds_interrupts_) check_interrupt();
  int synced = 0;
  do {
    synced = ::fsync(fd_);
  } while (synced != 0 && errno == EINTR);
  if (synced != 0) fail("write", errno);
  if (::rename(partial_.c_str(), target_.c_str()) != 0) fail("finish", errno);

  // The name is given: from here on nothing takes it away. Folders that cannot be opened or flushed exist.
  ::close(std::exchange(fd_, -1));
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  const int folder_fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) return;
  const int flushed = ::fsync(folder_fd);
  const int code = errno;
  ::close(folder_fd);
  if (flushed != 0 && code == EIO) fail("flush the folder of", code);
}

}  // namespace crumb
