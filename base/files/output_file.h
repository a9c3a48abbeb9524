// Files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/error.h"

namespace crumb {

/// What happens to the partial file that an earlier run left.
enum class LeftOver { kDiscard, kContinue };

/// Writes `<target>.partial` next to the target. commit() flushes it to the disk, renames it to the target
/// and flushes the folder. Until commit() returns, an older file of that name is untouched. Destruction
/// without commit() removes the partial file, unless it is to be kept. A killed run leaves at most a stale
/// partial file with Crumb's mark (base/files/partial.h), which the next run discards, or continues.
///
/// A partial file without the mark is somebody else's: an Error, except for a run that continues one, which
/// must know what it holds. Neither file may be an input of the run (base/files/inputs.h). The partial file
/// is locked (flock) while the object lives: a second run into the same output is refused with a message that
/// says who writes, and the first run's file is left alone. A target that is a symbolic link to a file keeps
/// being one: the file that it points to is replaced. New files have the mode that the umask gives.
///
/// Every failure throws crumb::Error with the file and the system's reason (a full disk, a missing folder);
/// after a failure commit() refuses. Writing calls check_interrupt() at least every 8 MiB.
class OutputFile {
 public:
  /// Refuses a target in a missing folder, and one that exists and is not a regular file.
  explicit OutputFile(const std::filesystem::path& target, LeftOver left_over = LeftOver::kDiscard);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }

  /// Overwrites [offset, offset + bytes.size()). Bytes beyond size() grow the file; a gap reads as zeros.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Drops the bytes from `size` on, which is at most size().
  void shrink_to(std::uint64_t size);

  /// Reads back [offset, offset + out.size()), which must have been written.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

  /// Makes writing ignore check_interrupt(): for what is kept because a person asked to stop.
  void outlast_interrupts() { heeds_interrupts_ = false; }

  /// Makes destruction without commit() leave the partial file, for a run that continues it.
  void keep_partial() { keeps_partial_ = true; }

  /// Appends zeros up to a multiple of alignment.
  void pad_to(std::uint64_t alignment);

  std::uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return target_; }
  const std::filesystem::path& partial_path() const { return partial_; }  ///< the path until commit()

  /// Writes everything to the disk: the part of commit() that may take long or fail.
  void flush();

  /// Call it once, last. Afterwards nothing can be written.
  void commit();

 private:
  void open_and_lock(LeftOver left_over);
  bool take(int fd, LeftOver left_over);
  void start_writeback();
  void require_usable() const;
  [[noreturn]] void fail(const char* what, int code);

  std::filesystem::path target_;
  std::filesystem::path partial_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t flushing_ = 0;  ///< bytes from the front that the system was asked to write to the disk
  bool failed_ = false;
  bool keeps_partial_ = false;
  bool heeds_interrupts_ = true;
};

}  // namespace crumb
