// Zip archives as PyTorch and NumPy write them, read in place.
//
// Our own reader and not libzip's: a checkpoint larger than memory is read where it lies, and for that one
// must know the offset of a stored member in the file, which libzip does not tell.
//
// Read: the end record (with a comment), zip64 records and extra fields, the central directory, and each
// member's local header, whose names must agree. Methods 0 (stored) and 8 (deflate). Refused by name:
// encryption, other methods, several disks, members that overlap each other or the directory, duplicate
// names. Data descriptors are fine: sizes come from the central directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/stored_tensor.h"

namespace crumb {

struct ZipMember {
  std::string name;
  std::uint64_t offset = 0;  ///< of its data, from the start of the file
  std::uint64_t stored = 0;  ///< bytes in the file
  std::uint64_t size = 0;    ///< bytes once decoded; equal to stored where kPlain
  StorageCoding coding = StorageCoding::kPlain;
  std::uint32_t crc = 0;  ///< zlib's CRC-32 of the decoded bytes, as the directory says
};

/// Lists an archive's members, in the order of the directory, folders left out. Memory is bounded by the
/// directory's size; the members' data is not touched.
Result<std::vector<ZipMember>> parse_zip(std::span<const std::byte> file);

/// A small member's bytes (a pickle), decoded. A Failure above max_bytes and on damage; the CRC is checked
/// where check_crc.
Result<std::vector<std::byte>> read_zip_member(std::span<const std::byte> file, const ZipMember& member,
                                               std::uint64_t max_bytes, bool check_crc = true);

}  // namespace crumb
