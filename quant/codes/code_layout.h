// The parts of an encoded tensor in the order of another layout (formats/number/encoding.h): rows, or tiles.
#pragma once

#include "quant/quantized_tensor.h"

namespace crumb {

/// Whether a tensor of this shape is worth tiles: those that are not full cost more than they save.
bool fits_tiles(std::span<const uint64_t> shape, uint64_t stack_axes = 0);

/// The codes of a tensor, or of a run of its rows that begins at a multiple of kTileRows, in tiles.
CodeBytes codes_in_tiles(const QuantizedView& rows, int threads = 0);

/// The tensor with its codes, scales and zero points laid out so.
QuantizedTensor in_layout(const QuantizedView& tensor, std::string spec, CodeLayout codes, int threads = 0);

/// Scales and zero points alone; `tensor` needs no codes.
struct BlockParts {
  std::vector<std::byte> scales, zeros;
};
BlockParts blocks_in_layout(const QuantizedView& tensor, CodeLayout codes);

/// A matrix [rows, columns] the other way round, its blocks too: each value is the same. Precondition: codes in rows, two
/// axes, no stack.
QuantizedTensor transposed(const QuantizedView& tensor, std::string spec);

}  // namespace crumb
