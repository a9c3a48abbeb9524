// The types that a tensor in a GGUF file can have: one table, from which reading, messages and tests derive.
//
// ggml cuts a tensor's innermost axis into blocks of a fixed number of elements, and each block takes a fixed
// number of bytes, so that a row is a whole number of blocks. A type of one element a block is a plain number
// type. The layout of every other stands beside its decoder in blocks_*.cpp; all numbers in it are
// little-endian, f16 is IEEE binary16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formats/dtype.h"

namespace crumb {

/// Decodes one block: `block` holds the type's block_bytes, `out` takes its block_elements. Every pattern of
/// bits has a value (NaN and infinity where the block's scale is such). All steps are float32 operations in
/// the order that the layout's formula says, so that the result is the one of the `gguf` Python package, bit
/// for bit but for what a NaN carries.
using GgmlDecode = void (*)(const std::byte* block, float* out);

struct GgmlType {
  std::uint32_t number;     ///< in the file
  std::string_view name;    ///< as ggml and the `gguf` package spell it
  unsigned block_elements;  ///< 1: plain numbers
  unsigned block_bytes;
  std::optional<DType> plain;  ///< the same as a plain type; none where blocks are decoded
  GgmlDecode decode;           ///< null of plain types, and where Crumb does not decode the type

  bool is_decoded() const { return plain || decode != nullptr; }
};

/// Decodes elements [begin, begin + out.size()) of a run of blocks, all of which `blocks` holds. `scale` is
/// 1, or the scale of an NVFP4 tensor: a value is then that of the code times (the block's scale times
/// `scale`), as in a packed file. Preconditions: Crumb decodes the type, and the range is inside.
void decode_ggml(const GgmlType& type, std::span<const std::byte> blocks, std::uint64_t begin,
                 std::span<float> out, float scale = 1);

/// In the order of their numbers. Types that Crumb does not decode have a row too, to be refused by name.
std::span<const GgmlType> ggml_types();

/// Null where no row has the number.
const GgmlType* find_ggml_type(std::uint32_t number);

}  // namespace crumb
