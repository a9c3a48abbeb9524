// The weight of a linear layer that another tool quantized: N rows (outputs) by K columns (inputs) of small
// codes with scales, in the layouts of compressed-tensors, GPTQ and AWQ.
//
//   value(n, k) = narrow((code(n, k) - zero(n, g)) * scale(n, g)),  g the group of column k
//
// narrow() rounds once to the type that the other library computes in: code, zero and their difference are
// exact there, so that the product in float32 rounded to that type is the product in that type. With a global
// scale (NVFP4) the scale is scale(n, g) / global, one float32 division.
//
// Codes of b bits:
//   rows      every row a bit stream, least significant bit first, code k at bits [b*k, b*k + b), padded to
//             whole 4-byte words where compressed-tensors packs integers, to whole bytes elsewhere
//   words     the same with 32/b codes in each word and dead bits above, as compressed-tensors wrote 3, 5, 6
//             and 7 bits before version 0.17
//   columns   GPTQ: the stream of row n runs down column n of [K*b/32, N] words
//   awq       [K, N/8] words; the half-byte i of word c holds row 8c + (0 2 4 6 1 3 5 7)[i]
// Zero points: none; [N, G] signed bytes, or one; compressed-tensors' [N*b/32, G] words, the stream of group
// g running down column g; GPTQ's [G, N*b/32] words, the stream of group g along its row, where version 1
// stores one less, and so does AutoRound, which adds it to a field by itself; AWQ's [G, N/8] words.
// Scales: [N, G] or [G, N]; [1]; or one for each block of rows and columns.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/input_file.h"
#include "formats/computed_matrix.h"
#include "formats/dtype.h"

namespace crumb {

enum class CodePlacement : std::uint8_t { kRows, kWords, kColumns, kAwq };

/// The value of a code's bit pattern.
enum class CodeMeaning : std::uint8_t {
  kOffset,    ///< the pattern minus 2^(b-1)
  kUnsigned,  ///< the pattern
  kSigned,    ///< two's complement
  kE2M1,
  kE2M3,
  kE4M3,  ///< e4m3fn
  kE5M2,
  kE4M3Fnuz,
  kE5M2Fnuz,
};

enum class ZeroPlacement : std::uint8_t { kNone, kBytes, kDown, kGptq1, kGptq2, kAutoRound, kAwq };

/// The number of groups of `size` that hold `count` elements; the last one may be partial. `size` may be any
/// number above 0, as files give it.
constexpr std::uint64_t groups_of(std::uint64_t count, std::uint64_t size) {
  return count / size + (count % size != 0 ? 1 : 0);
}

/// Everything that decoding needs in addition to the bytes.
struct QuantizedLayout {
  std::uint64_t rows = 0, cols = 0;
  unsigned bits = 0;  ///< 1 to 8
  CodePlacement codes = CodePlacement::kRows;
  std::uint64_t row_bytes = 0;  ///< of kRows and kWords: one row; of the others: one row of words
  CodeMeaning meaning = CodeMeaning::kOffset;
  DType scale = DType::
      kF32;  ///< F32, F16, BF16; F8_E4M3, F8_E8M0 and U8 (a power of two: 2^(byte - 127)), which become BF16
  bool scale_columns = false;    ///< scales are [G, N]
  std::uint64_t scale_rows = 1;  ///< rows that share a scale: 1, a block's, or all
  std::uint64_t group = 1;       ///< columns that share a scale, where no index says it; at least 1
  std::uint64_t groups = 1;      ///< G
  ZeroPlacement zeros = ZeroPlacement::kNone;
  bool has_index = false;  ///< each column's group is stored
  bool has_global = false;
  DType result = DType::kF32;  ///< the type that values are computed in: F32, F16, BF16

  bool operator==(const QuantizedLayout&) const = default;
};

/// The bytes of one stored tensor. Whoever makes the layout checks that there are as many as it says.
struct QuantizedPart {
  std::shared_ptr<const InputFile> file;
  std::uint64_t offset = 0;
};

struct QuantizedParts {
  QuantizedPart codes, scales, zeros, index, global;  ///< those that the layout has
};

/// Reading the matrix is a Failure where an index is outside of the groups.
std::shared_ptr<const ComputedMatrix> make_quantized_matrix(const QuantizedLayout& layout,
                                                            const QuantizedParts& parts);

}  // namespace crumb
