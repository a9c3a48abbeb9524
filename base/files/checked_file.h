// A file with a checksum behind its bytes: the CRC-32 of them and of their number (eight bytes), both little-endian. For what is to
// be read back as it was written, by readers that would not see a bit that turned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/files/mapped_file.h"
#include "base/files/output_file.h"

namespace crumb {

/// Writes one: all of it or nothing, also when a person has asked to stop. Throws what OutputFile does.
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

/// The bytes of one, without the checksum.
class CheckedFile {
 public:
  /// Fails as MappedFile::open does, and where the checksum is another.
  static Result<CheckedFile> open(const std::filesystem::path& path);

  std::span<const std::byte> bytes() const { return file_.bytes().first(size_); }
  std::string_view text() const { return {reinterpret_cast<const char*>(file_.bytes().data()), size_}; }

 private:
  CheckedFile(MappedFile file, std::size_t size) : file_(std::move(file)), size_(size) {}

  MappedFile file_;
  std::size_t size_;
};

}  // namespace crumb
