// Zip archives in memory, made by hand so that they can be wrong.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/checksum.h"

namespace crumb::testing {

inline std::string le(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 255u);
  return text;
}

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// A raw deflate stream.
inline std::string deflated(const std::string& plain, int level = 9) {
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&stream, plain.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int answer = deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  if (answer != Z_STREAM_END) throw std::runtime_error("deflate");
  return out;
}

/// What a member says. The local_ fields are the local header's where they differ from the directory's.
struct ZipSample {
  std::string name;
  std::string stored;  ///< its bytes in the file
  std::uint64_t method = 0;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  std::uint64_t flags = 0;
  std::uint64_t disk = 0;
  std::string extra = {};
  std::string comment = {};
  std::string local_extra = {};
  std::string descriptor = {};  ///< follows the data
  std::optional<std::string> local_name = {};
  std::optional<std::uint64_t> local_flags = {}, local_method = {}, local_size = {}, local_stored = {},
                               local_crc = {};
  std::optional<std::uint64_t> said_size = {}, said_stored = {}, said_offset = {};  ///< by the directory
};

inline ZipSample plain_member(const std::string& name, const std::string& data) {
  return {.name = name, .stored = data, .size = data.size(), .crc = crc32_of(bytes_of(data))};
}

inline ZipSample deflated_member(const std::string& name, const std::string& data) {
  ZipSample member = plain_member(name, data);
  member.stored = deflated(data);
  member.method = 8;
  return member;
}

struct ZipEnd {
  std::string before = {};  ///< between the last member and the directory
  std::string after = {};   ///< between the directory and the end records
  std::string comment = {};
  bool zip64 = false;      ///< with the 64-bit records too
  bool sentinels = false;  ///< with the old record pointing to the 64-bit one
  std::string record64_extra = {};
  std::optional<std::uint64_t> members = {}, bytes = {}, offset = {}, record64 = {}, disks = {};
};

inline std::string zip_file(const std::vector<ZipSample>& members, const ZipEnd& end = {}) {
  std::string file;
  std::string directory;
  for (const ZipSample& m : members) {
    const std::uint64_t at = file.size();
    const std::string name = m.local_name.value_or(m.name);
    file += "PK\3\4" + le(20, 2) + le(m.local_flags.value_or(m.flags), 2) +
            le(m.local_method.value_or(m.method), 2) + le(0x210000, 4) + le(m.local_crc.value_or(m.crc), 4) +
            le(m.local_stored.value_or(m.stored.size()), 4) + le(m.local_size.value_or(m.size), 4) +
            le(name.size(), 2) + le(m.local_extra.size(), 2) + name + m.local_extra + m.stored + m.descriptor;
    directory += "PK\1\2" + le(20, 2) + le(20, 2) + le(m.flags, 2) + le(m.method, 2) + le(0x210000, 4) +
                 le(m.crc, 4) + le(m.said_stored.value_or(m.stored.size()), 4) +
                 le(m.said_size.value_or(m.size), 4) + le(m.name.size(), 2) + le(m.extra.size(), 2) +
                 le(m.comment.size(), 2) + le(m.disk, 2) + le(0, 2) + le(0, 4) +
                 le(m.said_offset.value_or(at), 4) + m.name + m.extra + m.comment;
  }
  file += end.before;
  const std::uint64_t count = end.members.value_or(members.size());
  const std::uint64_t bytes = end.bytes.value_or(directory.size());
  const std::uint64_t offset = end.offset.value_or(file.size());
  file += directory + end.after;
  if (end.zip64) {
    const std::uint64_t at = end.record64.value_or(file.size());
    file += "PK\6\6" + le(44 + end.record64_extra.size(), 8) + le(45, 2) + le(45, 2) + le(0, 8) +
            le(count, 8) + le(count, 8) + le(bytes, 8) + le(offset, 8) + end.record64_extra;
    file += "PK\6\7" + le(0, 4) + le(at, 8) + le(end.disks.value_or(1), 4);
  }
  const std::uint64_t short_count = end.sentinels ? 0xffff : count;
  file += "PK\5\6" + le(0, 4) + le(short_count, 2) + le(short_count, 2) +
          le(end.sentinels ? 0xffffffff : bytes, 4) + le(end.sentinels ? 0xffffffff : offset, 4) +
          le(end.comment.size(), 2) + end.comment;
  return file;
}

/// A zip64 extra field of these numbers.
inline std::string extra64(const std::vector<std::uint64_t>& numbers) {
  std::string extra = le(1, 2) + le(8 * numbers.size(), 2);
  for (const std::uint64_t number : numbers) extra += le(number, 8);
  return extra;
}

}  // namespace crumb::testing
