// Reads a file piece by piece with pread, without mapping it: there are no pages to account for, a disk error
// or a file that shrank is a Failure and not a signal, and no descriptor is held between reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"

namespace crumb {

/// Tells a file from a changed one.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;  ///< mtime
  std::int64_t changed_ns = 0;   ///< ctime: changes with every write, and with a new name or new permissions

  /// Ignores changed_ns: giving a file another name does not disturb its reader.
  bool operator==(const FileIdentity& other) const {
    return device == other.device && inode == other.inode && size == other.size &&
           modified_ns == other.modified_ns;
  }
};

class InputFile {
 public:
  /// Fails where the path does not exist, cannot be read, or is not a regular file; the message names path
  /// and reason.
  static Result<InputFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return identity_.size; }
  const FileIdentity& identity() const { return identity_; }

  /// Fills `out` from `offset` on. Fails where the file is gone, changed since open(), ends too early or
  /// cannot be read; the message names path and reason. Thread-safe.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  InputFile(std::filesystem::path path, const FileIdentity& identity);

  std::filesystem::path path_;
  FileIdentity identity_;
};

}  // namespace crumb
