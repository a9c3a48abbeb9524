// The values of GGUF's metadata, inside formats/gguf.
#pragma once

#include "formats/gguf/cursor.h"
#include "formats/gguf/gguf.h"

namespace crumb {

/// The bytes of a number's type; 0 for texts and arrays.
std::uint64_t gguf_number_bytes(GgufValueType type);

/// The value type of that number in the file. A Failure where there is none.
Result<GgufValueType> gguf_value_type(std::uint32_t number);

/// The next value of a type, with all that it holds. `depth` counts the arrays around it.
Result<GgufValue> read_gguf_value(GgufCursor& cursor, GgufValueType type, unsigned depth = 0);

}  // namespace crumb
