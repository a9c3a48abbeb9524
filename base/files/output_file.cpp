#include "base/files/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/files/inputs.h"
#include "base/files/interrupt.h"
#include "base/files/mapped_file.h"
#include "base/files/output_place.h"
#include "base/files/partial.h"
#include "base/files/text.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const fs::path& path, const std::string& why) {
  return Error("cannot write " + quote_text(path.native()) + ": " + why);
}

Error is_foreign(const fs::path& partial, const fs::path& target) {
  return Error(quote_text(target.native()) + " is first written as " + quote_text(partial.native()) +
               ", which exists and which no run of crumb left there; move it away or choose another output");
}

Error is_being_written(const fs::path& target, const fs::path& partial, const struct stat& info) {
  return cannot_write(target, "another run is writing it now (" + quote_text(partial.native()) +
                                  " is locked by " + holder_of_lock(info) + ")");
}

/// Checks the file that has the partial file's name. Throws where it is not ours to write into.
void check_left_over(const struct stat& info, const fs::path& partial, const fs::path& target,
                     LeftOver left_over) {
  if (!S_ISREG(info.st_mode)) throw cannot_write(partial, "it exists and is not a regular file");
  if (left_over == LeftOver::kDiscard && info.st_size > 0 && !is_marked_partial(info))
    throw is_foreign(partial, target);
}

/// Opens the partial file, new or as it is; returns -1 where it appeared or vanished meanwhile.
int open_partial(const fs::path& partial) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = ::open(partial.c_str(), kFlags | O_CREAT | O_EXCL, 0666 | kPartialMark);
  if (fd >= 0) return fd;
  if (errno != EEXIST) throw cannot_write(partial, errno_text(errno));
  fd = ::open(partial.c_str(), kFlags);
  if (fd >= 0 || errno == ENOENT) return fd;
  throw cannot_write(partial, errno == ELOOP ? "it exists and is a symbolic link" : errno_text(errno));
}

}  // namespace

fs::path resolve_output(const fs::path& target) {
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

void check_output(const fs::path& target, LeftOver left_over) {
  const fs::path real = resolve_output(target);
  const fs::path folder = real.has_parent_path() ? real.parent_path() : fs::path(".");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw cannot_write(target, "the folder " + quote_text(folder.native()) + ": " + errno_text(errno));
  const fs::path partial = partial_path_of(real);
  struct stat info = {};
  if (::lstat(partial.c_str(), &info) != 0) return;
  if (is_locked(info)) throw is_being_written(target, partial, info);
  check_left_over(info, partial, target, left_over);
}

OutputFile::OutputFile(const fs::path& target, LeftOver left_over)
    : target_(resolve_output(target)), partial_(partial_path_of(target_)) {
  announce_output(target_, {partial_});
  open_and_lock(left_over);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : target_(std::move(other.target_)),
      partial_(std::move(other.partial_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      flushing_(other.flushing_),
      failed_(other.failed_),
      keeps_partial_(other.keeps_partial_),
      heeds_interrupts_(other.heeds_interrupts_) {}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  if (!keeps_partial_ && is_still_named(fd_, partial_)) ::unlink(partial_.c_str());
  ::close(fd_);
}

void OutputFile::open_and_lock(LeftOver left_over) {
  // Between opening the file and locking it, another run may finish and rename it. Its name then means
  // another file or none, and the attempt starts again.
  for (;;) {
    const int fd = open_partial(partial_);
    if (fd < 0) continue;
    try {
      if (take(fd, left_over)) return;
    } catch (...) {
      ::close(fd);
      throw;
    }
    ::close(fd);
  }
}

/// Whether the opened partial file is now ours.
bool OutputFile::take(int fd, LeftOver left_over) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) throw cannot_write(partial_, errno_text(errno));
  if (lock_now(fd, partial_) == LockState::kBusy) throw is_being_written(target_, partial_, info);
  if (!is_still_named(fd, partial_)) return false;
  if (::fstat(fd, &info) != 0) throw cannot_write(partial_, errno_text(errno));
  check_left_over(info, partial_, target_, left_over);
  if (info.st_nlink > 1) {  // its other names keep its contents
    if (left_over == LeftOver::kContinue)
      throw cannot_write(partial_, "it exists under another name, too, which would be written along");
    if (::unlink(partial_.c_str()) != 0) throw cannot_write(partial_, errno_text(errno));
    return false;
  }
  if (left_over == LeftOver::kDiscard && ::ftruncate(fd, 0) != 0)
    throw cannot_write(partial_, errno_text(errno));
  set_partial_mark(fd, true);
  note_made(fd);
  size_ = left_over == LeftOver::kContinue ? static_cast<std::uint64_t>(info.st_size) : 0;
  fd_ = fd;
  return true;
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

/// Asks the system to begin writing complete parts to the disk, so that commit() has little left to wait for.
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

void OutputFile::flush() {
  require_usable();
  int synced = 0;
  do {
    synced = ::fsync(fd_);
  } while (synced != 0 && errno == EINTR);
  if (synced != 0) fail("write", errno);
}

void OutputFile::commit() {
  require_usable();
  if (heeds_interrupts_) check_interrupt();
  flush();
  refuse_input(target_);
  if (::rename(partial_.c_str(), target_.c_str()) != 0) fail("finish", errno);

  // The file has its name: from here on nothing takes it away. Some folders cannot be opened or flushed.
  set_partial_mark(fd_, false);
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
