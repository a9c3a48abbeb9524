// The packed file (.crumb), version 2: docs/crumb_file.md says what every byte means; this is its reader, of
// version 1 too.
//
//   offset  0   8 bytes   magic: 89 43 52 55 4D 42 0D 0A ("\x89CRUMB\r\n")
//   offset  8   u32       format version, 2 (1 is read, too)
//   offset 12   u32       zero
//   offset 16   u64       length of the header in bytes
//   offset 24   u64       length of the whole file in bytes
//   offset 32   u32       CRC-32 (zlib's) of the header
//   offset 36   u32       CRC-32 of bytes 0..35
//   offset 40   24 bytes  zero
//   offset 64   the header: UTF-8 JSON
//   then the blobs, in the order in which the header names them, each at the next multiple of 64; all padding
//   is zero; the file ends with the last blob
//
// Integers are little-endian. Opening checks everything but the blobs' contents; load() and read_slices()
// check those, when they are asked for.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/mapped_file.h"
#include "formats/crumb_file/decompress.h"
#include "formats/dtype.h"
#include "formats/number/encoding.h"

namespace crumb {

inline constexpr std::string_view kCrumbMagic =
    "\x89"
    "CRUMB\r\n";
inline constexpr uint32_t kCrumbVersion = 2;  ///< that is written; all from 1 on are read
inline constexpr uint64_t kCrumbPreamble = 64;
inline constexpr uint64_t kCrumbAlignment = 64;

/// The longest header that a file may have: room for 600 bytes a tensor where tensors have 10,000 bytes, and
/// little enough that parsing it stays within the file's size plus 64 MB.
constexpr uint64_t most_crumb_header(uint64_t file_size) { return (uint64_t{6} << 20) + file_size / 16; }
inline constexpr size_t kCrumbMostAxes = 64;
/// The path of the network's graph, in files that hold one.
inline constexpr std::string_view kCrumbGraphFile = "graph.onnx";

/// Whether a file that begins with these bytes claims to be a packed file.
bool looks_like_crumb(std::span<const std::byte> start);

enum class Codec : uint8_t { kNone, kZstd };
inline constexpr std::string_view kCodecNames[] = {"none", "zstd"};

/// A run of bytes in the file.
struct Blob {
  uint64_t offset = 0;  ///< from the start of the file
  uint64_t stored = 0;  ///< bytes in the file
  uint64_t raw = 0;     ///< bytes after decompression
  Codec codec = Codec::kNone;
  uint32_t crc = 0;         ///< zlib's CRC-32 of the raw bytes
  bool crc_stored = false;  ///< of the stored bytes instead: version 1
};

/// The parts of a tensor: `data` alone (kept as it was), or the parts of an encoded tensor.
enum class Part : uint8_t { kData, kCodes, kScales, kZeros, kCodebook, kTensorScale };
inline constexpr std::array<std::string_view, 6> kPartNames = {"data",  "codes",    "scales",
                                                               "zeros", "codebook", "tensor_scale"};

struct PackedTensor {
  std::string name;
  DType dtype = DType::kF32;  ///< of the tensor that was read
  std::vector<uint64_t> shape;
  std::string spec;                  ///< of encoded tensors: the canonical line
  std::optional<Encoding> encoding;  ///< nothing: kept as it was
  std::array<std::optional<Blob>, kPartNames.size()> parts;

  const std::optional<Blob>& part(Part part) const { return parts[static_cast<size_t>(part)]; }
  uint64_t stored_bytes() const;
};

/// "tensor 'x': codes", for messages.
std::string part_text(const PackedTensor& tensor, Part part);

/// Another file of the model: configuration, tokenizer.
struct PackedFile {
  std::string path;  ///< relative, with forward slashes, inside the model's folder
  Blob blob;
};

/// The contents of the header.
struct CrumbHeader {
  uint32_t version = kCrumbVersion;  ///< of the file
  std::string model;  ///< what kind of model this is: the architecture its configuration names, or ""
  std::vector<PackedTensor> tensors;
  std::vector<PackedFile> files;
};

/// The raw size that each part must have; nothing for a part that the tensor must not have. A Failure where a
/// shape overflows.
Result<std::array<std::optional<uint64_t>, kPartNames.size()>> part_sizes(const PackedTensor& tensor);

/// The rules for names, for files that are written and files that are read: tensors have names, all
/// different; files have paths inside the model's folder, all different, and none is a folder of another;
/// everything is UTF-8. A Failure says which name breaks which rule.
Status check_crumb_names(const CrumbHeader& header);

/// The header's JSON in the form of its version. Its length depends on names, shapes and specs only.
std::string write_crumb_header(const CrumbHeader& header);

/// Reads the header of a file of that version; checks names, shapes, encodings, sizes, and that blobs follow
/// one another from `first_blob` to the file's end. A Failure names the tensor, what was found and what was
/// expected. Takes at most eight times the header's length of memory.
Result<CrumbHeader> parse_crumb_header(std::span<const std::byte> json, uint64_t first_blob,
                                       uint64_t file_size, uint32_t version = kCrumbVersion);

/// The preamble's 64 bytes.
std::array<std::byte, kCrumbPreamble> write_crumb_preamble(std::string_view header, uint64_t file_size,
                                                           uint32_t version = kCrumbVersion);

/// The bytes of a blob: a view of the mapped file, or the decompressed bytes.
class BlobBytes {
 public:
  explicit BlobBytes(std::span<const std::byte> view) : view_(view) {}
  explicit BlobBytes(std::vector<std::byte> owned) : owned_(std::move(owned)), view_(owned_) {}
  BlobBytes(BlobBytes&&) = default;
  BlobBytes& operator=(BlobBytes&&) = default;
  std::span<const std::byte> bytes() const { return view_; }

 private:
  std::vector<std::byte> owned_;
  std::span<const std::byte> view_;
};

/// A packed file, mapped or in memory. Move-only; spans stay valid while it lives.
class CrumbFile {
 public:
  static Result<CrumbFile> open(const std::filesystem::path& path);
  /// A whole file in memory, which must outlive this.
  static Result<CrumbFile> in_memory(std::span<const std::byte> bytes);

  const CrumbHeader& header() const { return header_; }
  uint64_t size() const { return bytes_.size(); }
  /// Empty for a file in memory.
  std::filesystem::path path() const { return file_ ? file_->path() : std::filesystem::path(); }
  const PackedTensor* find(std::string_view name) const;
  const PackedFile* find_file(std::string_view path) const;

  /// Checks the checksum and returns the raw bytes. `what` names the blob in messages ("tensor 'x': codes").
  Result<BlobBytes> load(const Blob& blob, const std::string& what) const;

  using Sink = BlobSink;

  /// Passes the raw bytes to the sink in slices, in order, and checks the checksum: before that where they
  /// are stored uncompressed, at the end where they are compressed, so the sink's result is valid only once
  /// this succeeded. A Failure of the sink ends it. A compressed blob must decompress to exactly its raw
  /// size. Takes a few megabytes of memory whatever the blob's size, and gives the pages it read back to the
  /// system. Throws Interrupted when the user asked to stop.
  Status read_slices(const Blob& blob, const std::string& what, const Sink& sink) const;

  /// read_slices() without a sink.
  Status check_blob(const Blob& blob, const std::string& what) const;

  /// A blob's bytes as stored in the file, possibly compressed. They are not checked: for callers of
  /// check_blob() that then read pieces of a large one.
  std::span<const std::byte> stored(const Blob& blob) const {
    return bytes_.subspan(blob.offset, blob.stored);
  }

  /// Gives a blob's pages back to the system, where the file is mapped.
  void release(const Blob& blob) const { release(stored(blob)); }

 private:
  Status for_slices(const Blob& blob, const std::string& what, const Sink& sink) const;

  CrumbFile(std::optional<MappedFile> file, std::span<const std::byte> bytes, CrumbHeader header);

  void release(std::span<const std::byte> part) const {
    if (file_) file_->release(part);
  }

  std::optional<MappedFile> file_;    ///< nothing: memory of the caller
  std::span<const std::byte> bytes_;  ///< they do not move with the map
  CrumbHeader header_;
  std::vector<size_t> by_name_;  ///< indices of the tensors in the header, sorted by name
};

/// The preamble and header of a whole file in memory, with every check that open() makes.
Result<CrumbHeader> parse_crumb(std::span<const std::byte> file);

}  // namespace crumb
