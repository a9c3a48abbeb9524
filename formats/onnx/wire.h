// Protobuf's wire format, walked in place.
//
// A message is a run of fields. A field is a tag, a varint of number * 8 + type, and a payload by type:
// 0 a varint, 1 eight bytes, 2 a length (a varint) and so many bytes, 5 four bytes; 3 and 4 (groups) are long
// deprecated and refused. A varint is little-endian, seven bits a byte, the top bit set on all but the last,
// at most ten bytes. Fixed numbers are little-endian. A message inside a message is a field of type 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace crumb {

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// A run of bytes of a file.
struct WireExtent {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t varint = 0;  ///< the value, where type is kVarint
  WireExtent payload;        ///< without tag and length

  bool is(std::uint32_t n, WireType t = WireType::kBytes) const { return number == n && type == t; }
};

/// The fields of one message, in order. Touches tags and lengths only, so that walking is linear in the
/// number of fields, whatever they hold.
///   WireReader reader(file, extent);
///   for (WireField field; reader.next(field);) ...
///   if (!reader.status().ok()) return reader.status().failure();
class WireReader {
 public:
  /// Precondition: the message lies inside the file.
  WireReader(std::span<const std::byte> file, const WireExtent& message)
      : file_(file), at_(message.begin), end_(message.begin + message.size) {}

  /// False at the message's end and on damage, which status() tells apart.
  bool next(WireField& field);

  /// A Failure names the byte, what was found and what was expected.
  const Status& status() const { return status_; }

 private:
  bool read_varint(std::uint64_t& value);
  bool take(std::uint64_t size, WireField& field);
  bool fail(const std::string& message);

  std::span<const std::byte> file_;
  std::uint64_t at_;
  std::uint64_t end_;
  Status status_;
};

/// Reads the varint at `at` and moves `at` behind it; false where none ends before `end` or within ten bytes
/// (`at` stays). Bits beyond the 64th are dropped. Precondition: at <= end <= file.size().
bool read_wire_varint(std::span<const std::byte> file, std::uint64_t& at, std::uint64_t end,
                      std::uint64_t& value);

/// The bytes of an extent, which must lie inside the file.
inline std::string_view wire_text(std::span<const std::byte> file, const WireExtent& extent) {
  return {reinterpret_cast<const char*>(file.data()) + extent.begin, extent.size};
}

}  // namespace crumb
