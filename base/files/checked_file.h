// A file with a checksum after its bytes: the CRC-32 of the bytes and of their number (eight bytes), both
// little-endian. For files that are read back as they were written, by readers that would not notice a
// flipped bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/files/mapped_file.h"
#include "base/files/output_file.h"

namespace crumb {

/// Writes such a file: all of it or nothing, also where a person has asked to stop. Throws as OutputFile
/// does.
class CheckedFileWriter {
 public:
  explicit CheckedFileWriter(const std::filesystem::path& path);
  void append(std::span<const std::byte> bytes);
  void commit();

 private:
  OutputFile file_;
  std::uint32_t checksum_ = 0;
  std::uint64_t size_ = 0;
};

/// Reads such a file: its bytes without the checksum.
class CheckedFile {
 public:
  /// Fails as MappedFile::open does, and where the checksum differs.
  static Result<CheckedFile> open(const std::filesystem::path& path);

  std::span<const std::byte> bytes() const { return file_.bytes().first(size_); }
  std::string_view text() const { return {reinterpret_cast<const char*>(file_.bytes().data()), size_}; }

 private:
  CheckedFile(MappedFile file, std::size_t size) : file_(std::move(file)), size_(size) {}

  MappedFile file_;
  std::size_t size_;
};

}  // namespace crumb
