// A file's bytes, read in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"

namespace crumb {

/// A read-only memory map of a whole regular file; move-only. Spans into bytes() stay valid while it lives,
/// also across a move. An empty file is an empty span. The file must not shrink meanwhile: reading a page
/// that is gone kills the process (SIGBUS).
class MappedFile {
 public:
  /// Fails where the path does not exist, cannot be read, or is not a regular file (a folder, a pipe); the
  /// message names the path and the system's reason.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

  /// Gives the memory of the whole pages within [offset, offset + length), cut to the file, back to the
  /// system: reading through a file and releasing what was read keeps memory bounded. The bytes stay readable
  /// (from disk again).
  void release(std::uint64_t offset, std::uint64_t length) const;

  /// The same for a span into bytes().
  void release(std::span<const std::byte> part) const;

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size);

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Returns all of a small file. Fails as MappedFile::open does, and where it is longer than max_bytes.
Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes);

/// Returns the system's words for an errno value: "No space left on device".
std::string errno_text(int code);

}  // namespace crumb
