// Reads a tensor's bytes in order, whatever their coding in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/inflate.h"
#include "base/files/input_file.h"
#include "formats/computed_matrix.h"
#include "formats/stored_tensor.h"

namespace crumb {

/// Reads a tensor front to back, little-endian and row-major, as often as wanted. Plain row-major storages
/// are read from the file, coded ones are decoded on the way; blocks and reordered rows are read where they
/// are stored, computed matrices come a tile at a time, and codes are scaled as they are read. Only a view
/// with gaps or another order holds its storage in memory, resident_bytes() of it, from the first read on.
class TensorReader {
 public:
  /// `file` and `tensor` must outlive the reader.
  TensorReader(const InputFile& file, const StoredTensor& tensor);

  /// Reads the next out.size() bytes: whole elements (of types of a byte and more), of which the tensor has
  /// that many left. A Failure names the file, the tensor and what was wrong.
  Status read(std::span<std::byte> out);

  /// The next read starts at the front again.
  void rewind();

  /// Roughly the memory that reading such a tensor takes in addition to the caller's buffer.
  static std::uint64_t resident_bytes(const StoredTensor& tensor);

 private:
  void restart();
  Failure damaged(const std::string& why) const;
  Status fill_input();
  Status inflate(std::span<std::byte> out);
  Status read_varints(std::span<std::byte> out);
  Status decode(std::span<std::byte> out);
  Status skip_to(std::uint64_t storage_byte);
  Status read_in_order(std::span<std::byte> out);
  Status load_storage();
  Status gather(std::span<std::byte> out);
  Status read_rows(std::span<std::byte> out);
  Status read_elements(std::uint64_t element, std::span<std::byte> out);
  Status read_computed(std::span<std::byte> out);
  Status compute_tile(std::uint64_t row, std::uint64_t col);
  Status open_codes();
  Status read_affine(std::span<std::byte> out);

  const InputFile* file_;
  const StoredTensor* tensor_;
  std::uint64_t position_ = 0;  ///< bytes of the tensor that were returned
  std::uint64_t decoded_ = 0;   ///< bytes of the storage that were decoded
  std::uint64_t consumed_ = 0;  ///< bytes of the coded storage that were read
  std::uint32_t crc_ = 0;
  std::vector<std::byte> input_;  ///< coded bytes that are not decoded yet
  std::optional<Inflater> inflater_;
  std::vector<std::byte>
      storage_;  ///< of a view that is not row-major; of a computed matrix, the tile's elements
  MatrixTile tile_;
  std::vector<TensorReader> codes_;     ///< of kAffine, one from the first read on
  std::vector<double> scales_, zeros_;  ///< of its channels, or of the tensor
};

}  // namespace crumb
