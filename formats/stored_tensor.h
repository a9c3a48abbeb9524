// What every reader of tensor files answers: which tensors a file holds and where their bytes lie. A reader
// looks at headers only; formats/checkpoint/tensor_reader.h turns a place into bytes, whatever the format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/dtype.h"

namespace crumb {

/// How the bytes of a storage are coded in the file.
enum class StorageCoding : std::uint8_t {
  kPlain,       ///< as they are
  kDeflate,     ///< a raw deflate stream (RFC 1951)
  kVarints,     ///< a run of protobuf varints, one per element, of which the low dtype_bits are the element
  kGgmlBlocks,  ///< blocks of TensorPlace::blocks, which decode to F32, wherever one begins
  kComputed,    ///< of no storage: TensorPlace::computed gives the values of a matrix
  kAffine,      ///< of no storage: an F32 tensor is what TensorPlace::affine stands for
};

struct GgmlType;       // formats/gguf/ggml_type.h
class ComputedMatrix;  // formats/computed_matrix.h
struct AffineCodes;    // below

/// Where a tensor's elements lie. A storage is a run of elements of one type; a tensor is a view of it:
/// element (i, j, ...) is number first + i * strides[0] + j * strides[1] + ... of the storage. Readers check
/// that every element lies inside.
struct TensorPlace {
  std::uint64_t offset = 0;   ///< of the coded storage's first byte, from the start of the file
  std::uint64_t stored = 0;   ///< bytes of the coded storage in the file
  std::uint64_t decoded = 0;  ///< bytes of the storage once decoded (= stored where kPlain)
  StorageCoding coding = StorageCoding::kPlain;
  bool big_endian = false;
  std::uint64_t first = 0;             ///< the storage's element that is the tensor's first
  std::vector<std::uint64_t> strides;  ///< in elements, one an axis; empty: row-major without gaps
  std::uint64_t skip = 0;              ///< bytes of the decoded storage before its element 0 (an .npy header)
  std::optional<std::uint32_t> crc;    ///< zlib's CRC-32 of the decoded storage, where it may be relied on

  // What GGUF does to a model's tensors. Only of storages that are kPlain or kGgmlBlocks, row-major, without
  // first, skip and crc.
  const GgmlType* blocks = nullptr;  ///< of kGgmlBlocks
  float block_scale = 1;             ///< of NVFP4: by it the scale of every block is multiplied first
  /// Rows come in groups of this many (an even number, which divides theirs), and the two halves of a group
  /// are stored interleaved: rows b and n/2 + b of a group are its stored rows 2b and 2b + 1. 0: rows are
  /// stored in order. A row is an element of a vector, else the innermost axis.
  std::uint64_t interleaved_rows = 0;
  float added = 0;  ///< to every element of an F32 tensor that was decoded

  /// Of kComputed, a matrix of F32, F16 or BF16, whose values it gives are of that type: its columns are the
  /// last axis, its rows all others. `stored` is then what its parts take, and nothing else of the above
  /// counts.
  std::shared_ptr<const ComputedMatrix> computed;
  /// Of kAffine, the codes; `offset` and `stored` are theirs, and nothing else of the above counts.
  std::shared_ptr<const AffineCodes> affine;
};

/// Where rows interleaved in groups of n (TensorPlace::interleaved_rows) are stored: the stored row of a
/// tensor's row ...
constexpr std::uint64_t interleaved_row(std::uint64_t row, std::uint64_t n) {
  const std::uint64_t in_group = row % n;
  return row - in_group + (in_group < n / 2 ? 2 * in_group : 2 * (in_group - n / 2) + 1);
}

/// ... and the tensor's row that is stored there.
constexpr std::uint64_t deinterleaved_row(std::uint64_t stored, std::uint64_t n) {
  const std::uint64_t in_group = stored % n;
  return stored - in_group + (in_group % 2) * (n / 2) + in_group / 2;
}

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  TensorPlace place;
  std::string file;  ///< where not in the file that was read: a plain path relative to its folder
};

/// Integers that stand for floats, (code - zero point) * scale, as in a quantized tensor of PyTorch. As it
/// computes: with one scale the product is that of two float32, with scales of channels it is rounded once to
/// float32, unless their zero points are floats, with which all is float32.
struct AffineCodes {
  StoredTensor codes;  ///< of the same shape, in the same file: U8, I8 or I32
  float scale = 1;
  std::int64_t zero = 0;  ///< at most 53 bits count
  /// Where it is there, each index of this axis has its own scale and zero point, which lie in the same file.
  std::optional<std::size_t> axis;
  StoredTensor scales;  ///< [channels]: F64 or F32
  StoredTensor zeros;   ///< [channels]: I64, I32 or F32
};

/// Something in a file that is no tensor, or no weight: named in reports, never dropped quietly.
struct SkippedEntry {
  std::string name;  ///< "optimizer", "epoch"
  std::string what;  ///< "optimizer state (12 tensors)", "an integer", "a string"
};

/// A tensor as a matrix: its columns are the last axis, its rows all others. No product of a tensor's sizes
/// overflows.
inline std::uint64_t matrix_cols(const std::vector<std::uint64_t>& shape) {
  return shape.empty() ? 1 : shape.back();
}
inline std::uint64_t matrix_rows(const std::vector<std::uint64_t>& shape) {
  std::uint64_t rows = 1;
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) rows *= shape[axis];
  return rows;
}

struct TensorListing {
  std::vector<StoredTensor> tensors;
  std::vector<SkippedEntry> skipped;
};

}  // namespace crumb
