// Decodes codes of at most four bits, one block of a row after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/code_grid.h"

namespace crumb {

/// out[i] = value(codes[i]) * factors[i / block]: what Loops::decode gives without zero points, block by
/// block, bit for bit. Returns false and does nothing where this processor has nothing faster than
/// Loops::decode. Preconditions: the format has at most four bits, block and n are multiples of 8.
bool decode_blocks(const CodeGrid& grid, const std::uint8_t* codes, std::size_t n, std::size_t block,
                   const float* factors, float* out);

}  // namespace crumb
