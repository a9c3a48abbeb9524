// What a zip archive's records are known by, for its reader and its writer (PKWARE's APPNOTE, 4.3).
#pragma once

#include <cstdint>

namespace crumb {

inline constexpr std::uint32_t kEndRecord = 0x06054b50;
inline constexpr std::uint32_t kEndRecord64 = 0x06064b50;
inline constexpr std::uint32_t kEndLocator64 = 0x07064b50;
inline constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
inline constexpr std::uint32_t kLocalHeader = 0x04034b50;

/// Where a field of 16 or 32 bits says that the number stands in a zip64 record.
inline constexpr std::uint64_t kSee64Short = 0xffff;
inline constexpr std::uint64_t kSee64 = 0xffffffff;

/// The kind of the extra field that has the wide numbers.
inline constexpr std::uint16_t kZip64Extra = 0x0001;

}  // namespace crumb
