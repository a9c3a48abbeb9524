// Writes a packed file: the contents are planned first, then the blobs are supplied in order, then the header
// is filled in, for which space was reserved. The file appears under its name when finish() returns
// (base/files/output_file.h).
//
//   CrumbWriter writer("model.crumb", header, {.zstd_level = 0});
//   for (tensor, part in the plan's order) writer.write(bytes);
//   for (file in the plan's order) writer.write(bytes);
//   writer.finish();
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/files/output_file.h"
#include "formats/crumb_file/crumb_file.h"

namespace crumb {

/// Compression levels that the reader's window allows; 0: no compression. A blob that compression does not
/// make smaller is stored as it is.
inline constexpr int kMostZstdLevel = 19;

class CrumbWriter {
 public:
  /// `plan`: tensors with name, dtype, shape, spec and encoding, files with path and raw size; blobs are
  /// filled in here. Throws Error where a name or shape is none that a packed file may have
  /// (check_crumb_names, part_sizes), and where the output cannot be made.
  CrumbWriter(const std::filesystem::path& path, CrumbHeader plan, int zstd_level = 0,
              LeftOver left_over = LeftOver::kDiscard);

  /// Keeps the next parts of what an earlier run left, by its record, if all of them are where this plan puts
  /// them and their checksums hold; what no call keeps is dropped. Returns whether it did. Precondition:
  /// LeftOver::kContinue, and nothing was written yet.
  bool take_over(std::span<const Blob> recorded);

  /// Appends bytes to the current part, in as many pieces as the caller likes; end_part() checks that they
  /// are as many as planned. Parts come tensor by tensor in the plan's order, those of a tensor in the order
  /// of Part, then the files. Throws Error when the size is not the planned one, or when writing fails.
  void append(std::span<const std::byte> raw);
  void end_part();

  /// A whole part.
  void write(std::span<const std::byte> raw) {
    append(raw);
    end_part();
  }

  /// What has been written so far, with its blobs.
  const CrumbHeader& header() const { return header_; }

  /// The blobs of header(), in order; as many as part_count(). The first done() are written.
  const Blob& blob(size_t part) const { return *blobs_[part]; }
  size_t part_count() const { return blobs_.size(); }
  size_t done() const { return next_; }

  /// What was written stays, for a run that continues it, when this one ends without finish().
  void keep_partial() { file_.keep_partial(); }

  /// Writes the header, gives the file its name and returns its size. `check` gets the path of the whole file
  /// before that; if it throws, no file is left. Precondition: every part was written.
  uint64_t finish(const std::function<void(const std::filesystem::path& written)>& check = {});

 private:
  bool holds(const Blob& blob);
  void append_compressed(std::span<const std::byte> raw);
  void begin_part();
  void cut_to_end();

  CrumbHeader header_;
  std::vector<Blob*> blobs_;  ///< of header_, in order
  size_t next_ = 0;
  uint64_t end_;                    ///< of the header or the last complete part
  uint64_t appended_ = 0;           ///< raw bytes of the current part
  bool begun_ = false;              ///< whether the offset of the current part is fixed
  std::vector<std::byte> waiting_;  ///< raw bytes that are not compressed yet
  int zstd_level_;
  OutputFile file_;
};

/// Sets the offset of every blob of a plan and returns the length of the file, without compression;
/// compression makes nothing longer. Names may repeat: a plan may compare several encodings of a tensor.
/// Throws Error where sizes overflow, where a packed file may not have a shape, and where the header is too
/// large for such a file.
uint64_t place_uncompressed(CrumbHeader& plan);

/// The memory that compressing at this level takes in addition to the part itself.
uint64_t zstd_working_bytes(int level);

}  // namespace crumb
