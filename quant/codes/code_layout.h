// Converts the parts of an encoded tensor between layouts (formats/number/encoding.h): rows, or tiles.
#pragma once

#include "quant/quantized_tensor.h"

namespace crumb {

/// Whether tiles pay for a tensor of this shape: tiles that are not full cost more than they save.
bool fits_tiles(std::span<const uint64_t> shape, uint64_t stack_axes = 0);

/// Returns the codes of a tensor, or of a run of its rows that begins at a multiple of kTileRows, in tiles.
CodeBytes codes_in_tiles(const QuantizedView& rows, int threads = 0);

/// Returns the tensor with its codes, scales and zero points in this layout.
QuantizedTensor in_layout(const QuantizedView& tensor, std::string spec, CodeLayout codes, int threads = 0);

/// Scales and zero points alone. blocks_in_layout() needs no codes in `tensor`.
struct BlockParts {
  std::vector<std::byte> scales, zeros;
};
BlockParts blocks_in_layout(const QuantizedView& tensor, CodeLayout codes);

/// Transposes a matrix [rows, columns] together with its blocks: each value is the same. Precondition: codes
/// in rows, two axes, no stack.
QuantizedTensor transposed(const QuantizedView& tensor, std::string spec);

}  // namespace crumb
