// Parses amounts of bytes as people write them: "500MB", "1.5GB", "2 GiB".
//
//   SIZE = DIGITS[.DIGITS] [space] UNIT        UNIT = B | KB MB GB TB (10^3 ...) | KiB MiB GiB TiB (2^10 ...)
//
// The unit may be in upper or lower case and must be there: a bare number does not say what it counts.
// Fractions are exact; a part of a byte is dropped.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace crumb {

/// Returns the bytes. A Failure quotes the text and says what is wrong with it: no number, no or an unknown
/// unit, less than one byte, more than 64 bits.
Result<std::uint64_t> parse_byte_size(std::string_view text);

}  // namespace crumb
