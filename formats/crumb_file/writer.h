// Writing a packed file: what it will hold is planned first, then the blobs are supplied in order, then the
// header, whose place was kept, is filled in. The file appears under its name when finish() returns
// (io/output_file.h).
//
//   CrumbWriter writer("model.crumb", header, {.zstd_level = 0});
//   for (tensor, part in the plan's order) writer.write(bytes);
//   for (file in the plan's order) writer.write(bytes);
//   writer.finish();
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "formats/crumb_file/crumb_file.h"
#include "formats/io/output_file.h"

namespace crumb {

/// Levels that the reader's window allows; 0 stands for no compression. A blob that compression does not make
/// smaller is stored as it is.
inline constexpr int kMostZstdLevel = 19;

class CrumbWriter {
 public:
  /// `plan`: tensors with name, dtype, shape, spec and encoding, files with path and raw size; blobs are
  /// filled in here. Throws Error where the output cannot be made.
  CrumbWriter(const std::filesystem::path& path, CrumbHeader plan, int zstd_level = 0);

  /// The raw bytes of the next part: tensor by tensor in the plan's order, the parts in the order of Part,
  /// then the files. Throws Error when the size is not the planned one, or when writing fails.
  void write(std::span<const std::byte> raw);

  /// What has been written so far, blobs filled in.
  const CrumbHeader& header() const { return header_; }

  /// Writes the header and gives the file its name. Gives its size. Precondition: every part was written.
  uint64_t finish();

 private:
  void append_compressed(std::span<const std::byte> raw, Blob& blob);

  CrumbHeader header_;
  std::vector<Blob*> blobs_;  ///< of header_, in order
  size_t next_ = 0;
  int zstd_level_;
  OutputFile file_;
};

}  // namespace crumb
