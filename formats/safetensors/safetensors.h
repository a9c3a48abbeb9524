// Reading and writing safetensors, the tensor file of Hugging Face.
//
// Layout: an unsigned 64-bit little-endian N; N bytes of UTF-8 JSON that begin with '{' and may end in spaces
// (our writer, like the reference, pads N to a multiple of 8); then the data, to the end of the file. The
// JSON is
//   {"__metadata__": {string: string}, NAME: {"dtype": DTYPE, "shape": [sizes], "data_offsets": [begin,
//   end]}, ...}
// with offsets relative to the data. Tensors are little-endian, row-major, and cover the data without holes
// or overlap; empty tensors and rank 0 are legal; names are unique. N is at most 100,000,000.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/output_file.h"
#include "formats/dtype.h"

namespace crumb {

inline constexpr std::uint64_t kSafetensorsMaxHeader = 100'000'000;

struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  ///< of its first byte, from the start of the file
  std::uint64_t bytes = 0;   ///< what dtype and shape take
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  ///< in the order of their offsets
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;  ///< of the first byte after the header, from the start of the file
};

/// Whether a file that begins with these bytes (16 are enough) can be safetensors: a plausible header length,
/// then '{'.
bool looks_like_safetensors(std::span<const std::byte> start);

/// Checks a whole file against every rule above and lists its tensors; the data itself is not touched. A
/// Failure names the tensor or the byte, what was found and what was expected; a file cut short, how many
/// bytes are missing. Takes at most 60 MiB of memory, whatever the header says.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file);

/// What a writer is told about a tensor before its bytes.
struct TensorDescription {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
};

/// The order in which the reference writer lays tensors out, so that each is aligned: dtype descending as in
/// DType (large elements first), then name.
void sort_for_safetensors(std::vector<TensorDescription>& tensors);

/// The length and header of a file that holds these tensors in this order. The same input gives the same
/// bytes. Throws crumb::Error on duplicate names, names that are not UTF-8, and shapes without a size.
std::string safetensors_header(const std::vector<TensorDescription>& tensors,
                               const std::map<std::string, std::string>& metadata = {});

/// Writes a safetensors file tensor by tensor, atomically (OutputFile). Every failure throws crumb::Error.
///   SafetensorsWriter writer("out.safetensors", {{"a", DType::kF32, {2, 3}}, ...});
///   for (const TensorDescription& tensor : writer.tensors()) writer.write(tensor.name, bytes_of(tensor));
///   writer.commit();
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& target, std::vector<TensorDescription> tensors,
                    const std::map<std::string, std::string>& metadata = {});

  /// The order in which bytes are expected (sort_for_safetensors).
  const std::vector<TensorDescription>& tensors() const { return tensors_; }

  /// The next bytes of the named tensor, in as many chunks as the caller likes. The name must be that of the
  /// tensor whose turn it is; tensors without bytes may be left out.
  void write(std::string_view name, std::span<const std::byte> chunk);

  /// Refused while bytes are missing.
  void commit();

 private:
  void skip_complete();

  std::vector<TensorDescription> tensors_;
  OutputFile file_;
  std::size_t current_ = 0;
  std::uint64_t missing_ = 0;  ///< bytes of the current tensor
};

}  // namespace crumb
