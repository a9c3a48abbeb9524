#include "base/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checked_size.h"
#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"

namespace crumb {
namespace {

constexpr std::size_t kMostRead = std::size_t{64} << 20;

Failure cannot_read(const std::filesystem::path& path, const std::string& why) {
  return Failure{"cannot read " + quote_text(path.native()) + ": " + why};
}

FileIdentity identity_of(const struct stat& info) {
  const auto in_ns = [](const struct timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size), in_ns(info.st_mtim),
          in_ns(info.st_ctim)};
}

class OpenedFile {
 public:
  // Non-blocking, so that a pipe without a writer is refused instead of waited for.
  explicit OpenedFile(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

  Result<FileIdentity> identity(const std::filesystem::path& path) const {
    struct stat info = {};
    if (fd_ < 0 || ::fstat(fd_, &info) != 0) return cannot_read(path, errno_text(errno));
    if (S_ISDIR(info.st_mode)) return cannot_read(path, "it is a folder, expected a file");
    if (!S_ISREG(info.st_mode)) return cannot_read(path, "it is not a regular file");
    return identity_of(info);
  }

 private:
  int fd_;
};

}  // namespace

InputFile::InputFile(std::filesystem::path path, const FileIdentity& identity)
    : path_(std::move(path)), identity_(identity) {}

Result<InputFile> InputFile::open(const std::filesystem::path& path) {
  const OpenedFile file(path);
  const Result<FileIdentity> identity = file.identity(path);
  if (!identity.ok()) return identity.failure();
  note_input(file.get(), path);
  return InputFile(path, identity.value());
}

Status InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  const OpenedFile file(path_);
  const Result<FileIdentity> identity = file.identity(path_);
  if (!identity.ok()) return identity.failure();
  if (identity.value() != identity_)
    return cannot_read(path_, "it was changed while it was being read (" + byte_text(identity_.size) +
                                  " then, " + byte_text(identity.value().size) + " now)");
  if (!checked::fits(offset, out.size(), identity_.size)) {
    const std::uint64_t held = identity_.size - std::min(offset, identity_.size);
    return cannot_read(path_, "it ends at byte " + std::to_string(identity_.size) + ", where " +
                                  byte_text(out.size() - held) + " more are expected");
  }
  while (!out.empty()) {
    const ssize_t count =
        ::pread(file.get(), out.data(), std::min(out.size(), kMostRead), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(path_, errno_text(errno));
    if (count == 0)
      return cannot_read(path_, "it ends at byte " + std::to_string(offset) + ", where " +
                                    byte_text(out.size()) + " more are expected");
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace crumb
