// Writes zip archives, front to back, into an OutputFile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files/output_file.h"

namespace crumb {

/// The same members give the same bytes: dates are 1980-01-01, no attributes. Zip64 records only where a
/// member, the directory or the number of members needs them. Holds the directory in memory and, of a member,
/// some hundred KiB.
class ZipWriter {
 public:
  /// The archive begins at byte 0: `file` is empty. It must outlive the writer and is the caller's to commit.
  explicit ZipWriter(OutputFile& file) : file_(file) {}

  /// A member of the concatenated parts, stored or deflated. The name is UTF-8, and the caller sees to it
  /// that none occurs twice. Throws crumb::Error for names that zip cannot hold and where writing fails.
  void add(std::string_view name, std::span<const std::span<const std::byte>> parts, bool deflate);

  /// Once, last.
  void finish();

 private:
  OutputFile& file_;
  std::string directory_;
  std::uint64_t members_ = 0;
};

}  // namespace crumb
