// CRC-32 as zlib computes it (polynomial 0x04C11DB7, reflected), over buffers of any length.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace crumb {

/// Returns the checksum of these bytes after others whose checksum is `crc` (0: none).
inline uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t crc = 0) {
  if (bytes.empty()) return crc;  // for a null pointer zlib gives 0, whatever `crc` is
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

inline uint32_t crc32_of(std::string_view text) { return crc32_of(std::as_bytes(std::span(text))); }

}  // namespace crumb
