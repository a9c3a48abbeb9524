// Scales of sixteen rows of weights side by side, as kernels over tiles take them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/quantized_tensor.h"

namespace crumb::runtime::exact {

/// Writes the scales of the blocks of rows [first, first + rows) to scales [blocks of a row, 16], and the
/// zero points likewise where `zeros` is not null. Rows from `rows` on have what the last one has.
/// Preconditions: 1 <= rows <= 16; the rows are of one matrix, and of one tile where scales are stored in
/// tiles.
void scales_of_tile(const EncodedLayout& layout, const RowDecoder& decoder, std::uint64_t first,
                    std::size_t rows, float* scales, float* zeros);

}  // namespace crumb::runtime::exact
