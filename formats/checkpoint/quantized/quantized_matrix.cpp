#include "formats/checkpoint/quantized/quantized_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "formats/half.h"
#include "formats/number/number_format.h"
#include "formats/number/packing.h"
#include "formats/number/scale_format.h"

namespace crumb {
namespace {

using Bytes = std::vector<std::byte>;

/// The half-byte of a word in which AWQ keeps row 8c + j.
constexpr std::array<unsigned, 8> kAwqNibble = {0, 4, 1, 5, 2, 6, 3, 7};

std::uint32_t word_at(const std::byte* at) {
  std::uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

/// As number formats are called, but for the bits of integers.
std::string name_of(CodeMeaning meaning) {
  switch (meaning) {
    case CodeMeaning::kUnsigned: return "uint";
    case CodeMeaning::kE2M1: return "e2m1";
    case CodeMeaning::kE2M3: return "e2m3";
    case CodeMeaning::kE4M3: return "e4m3fn";
    case CodeMeaning::kE5M2: return "e5m2";
    case CodeMeaning::kE4M3Fnuz: return "e4m3fnuz";
    case CodeMeaning::kE5M2Fnuz: return "e5m2fnuz";
    case CodeMeaning::kOffset:
    case CodeMeaning::kSigned: break;
  }
  return "int";
}

std::array<float, 256> values_of(CodeMeaning meaning, unsigned bits) {
  switch (meaning) {
    case CodeMeaning::kE2M1: return value_table(*find_number_format("e2m1"));
    case CodeMeaning::kE2M3: return value_table(*find_number_format("e2m3"));
    case CodeMeaning::kE4M3:
    case CodeMeaning::kE5M2:
    case CodeMeaning::kE4M3Fnuz:
    case CodeMeaning::kE5M2Fnuz: return value_table(*find_number_format(name_of(meaning)));
    case CodeMeaning::kOffset:
    case CodeMeaning::kUnsigned:
    case CodeMeaning::kSigned: break;
  }
  std::array<float, 256> values{};
  const int half = 1 << (bits - 1);
  for (int pattern = 0; pattern < 2 * half; ++pattern) {
    const int value = meaning == CodeMeaning::kOffset                      ? pattern - half
                      : meaning == CodeMeaning::kSigned && pattern >= half ? pattern - 2 * half
                                                                           : pattern;
    values[static_cast<std::size_t>(pattern)] = static_cast<float>(value);
  }
  return values;
}

float narrow_to(DType type, float value) {
  if (type == DType::kF16) return f16_to_float(float_to_f16(value));
  if (type == DType::kBF16) return bf16_to_float(float_to_bf16(value));
  return value;
}

/// A run of bytes that repeats in a stored matrix: `bytes` from `first` on in each of `rows` rows.
struct Slice {
  std::uint64_t row_bytes = 0;
  std::uint64_t row = 0, rows = 0;
  std::uint64_t first = 0, bytes = 0;
};

/// The slice's runs one behind the other.
Status read_slice(const QuantizedPart& part, const Slice& slice, Bytes& out) {
  constexpr std::uint64_t kAtOnce = std::uint64_t{1} << 20;
  out.resize(slice.rows * slice.bytes);
  const std::uint64_t start = part.offset + slice.row * slice.row_bytes + slice.first;
  if (slice.bytes == slice.row_bytes || slice.rows == 1) return part.file->read(start, out);
  // Runs that lie near each other are read with what is between them.
  const bool near = slice.row_bytes <= kAtOnce && slice.row_bytes / 16 <= slice.bytes;
  const std::uint64_t step = near ? std::max<std::uint64_t>(1, kAtOnce / slice.row_bytes) : 1;
  Bytes between;
  for (std::uint64_t row = 0; row < slice.rows; row += step) {
    const std::uint64_t count = std::min(step, slice.rows - row);
    between.resize((count - 1) * slice.row_bytes + slice.bytes);
    if (Status read = part.file->read(start + row * slice.row_bytes, between); !read.ok()) return read;
    for (std::uint64_t i = 0; i < count; ++i)
      std::memcpy(out.data() + (row + i) * slice.bytes, between.data() + i * slice.row_bytes, slice.bytes);
  }
  return {};
}

/// Codes [0, out.size()) of a stream whose words lie `step` bytes apart.
void unpack_down(const std::byte* words, std::uint64_t step, unsigned bits, std::span<std::uint8_t> out) {
  std::uint64_t waiting = 0;  // bits that were read
  unsigned count = 0;
  for (std::uint8_t& code : out) {
    if (count < bits) {
      waiting |= static_cast<std::uint64_t>(word_at(words)) << count;
      words += step;
      count += 32;
    }
    code = static_cast<std::uint8_t>(waiting & ((1u << bits) - 1));
    waiting >>= bits;
    count -= bits;
  }
}

class QuantizedMatrix final : public ComputedMatrix {
 public:
  QuantizedMatrix(const QuantizedLayout& layout, const QuantizedParts& parts)
      : layout_(layout), parts_(parts), values_(values_of(layout.meaning, layout.bits)) {}

  std::string stored_as() const override {
    std::string text = name_of(layout_.meaning);
    if (layout_.meaning <= CodeMeaning::kSigned) text += std::to_string(layout_.bits);
    if (layout_.scale_rows > 1 && layout_.groups > 1)
      return text + ":block=" + std::to_string(layout_.scale_rows) + "x" + std::to_string(layout_.group);
    if (layout_.groups <= 1) return text + (layout_.scale_rows > 1 ? ":tensor" : ":channel");
    return text + ":group=" +
           std::to_string(layout_.has_index ? groups_of(layout_.cols, layout_.groups) : layout_.group);
  }

  Status read(const MatrixTile& tile, std::span<float> out) const override {
    if (tile.size() == 0) return {};
    Work work;
    if (Status done = read_codes(tile, work.codes); !done.ok()) return done;
    if (Status done = find_groups(tile, work); !done.ok()) return done;
    if (Status done = read_scales(tile, work); !done.ok()) return done;
    if (Status done = read_zeros(tile, work); !done.ok()) return done;
    for (std::uint64_t i = 0; i < tile.rows; ++i) {
      const std::uint8_t* const codes = work.codes.data() + i * tile.cols;
      const float* const scales = work.scales.data() + i * work.groups();
      const float* const zeros = work.zeros.empty() ? nullptr : work.zeros.data() + i * work.groups();
      float* const to = out.data() + i * tile.cols;
      for (std::uint64_t j = 0; j < tile.cols; ++j) {
        const std::uint32_t g = work.group_of[j];
        const float value = values_[codes[j]] - (zeros ? zeros[g] : 0.0F);
        to[j] = narrow_to(layout_.result, value * scales[g]);
      }
    }
    return {};
  }

 private:
  /// Of one tile. Groups are counted from the first that the tile meets.
  struct Work {
    std::vector<std::uint8_t> codes;
    std::vector<std::uint32_t> group_of;  ///< by column
    std::uint64_t first_group = 0, end_group = 1;
    std::vector<float> scales, zeros;  ///< [rows, groups]

    std::uint64_t groups() const { return end_group - first_group; }
  };

  Status read_codes(const MatrixTile& tile, std::vector<std::uint8_t>& codes) const {
    codes.resize(tile.size());
    switch (layout_.codes) {
      case CodePlacement::kRows: return read_rows(tile, codes);
      case CodePlacement::kWords: return read_words(tile, codes);
      case CodePlacement::kColumns: return read_columns(tile, codes);
      case CodePlacement::kAwq: break;
    }
    return read_awq(parts_.codes, tile.col, tile.cols, tile, codes);
  }

  Status read_rows(const MatrixTile& tile, std::vector<std::uint8_t>& codes) const {
    const std::uint64_t bytes = packed_bytes(tile.cols, static_cast<int>(layout_.bits));
    Bytes packed;
    const Slice slice{layout_.row_bytes, tile.row, tile.rows, tile.col * layout_.bits / 8, bytes};
    if (Status read = read_slice(parts_.codes, slice, packed); !read.ok()) return read;
    for (std::uint64_t i = 0; i < tile.rows; ++i)
      unpack_codes(reinterpret_cast<const std::uint8_t*>(packed.data() + i * bytes),
                   static_cast<int>(layout_.bits), 0, std::span(codes).subspan(i * tile.cols, tile.cols));
    return {};
  }

  Status read_words(const MatrixTile& tile, std::vector<std::uint8_t>& codes) const {
    const std::uint64_t in_word = 32 / layout_.bits, first = tile.col / in_word;
    const std::uint64_t bytes = ((tile.col + tile.cols - 1) / in_word - first + 1) * 4;
    Bytes words;
    const Slice slice{layout_.row_bytes, tile.row, tile.rows, first * 4, bytes};
    if (Status read = read_slice(parts_.codes, slice, words); !read.ok()) return read;
    const std::uint32_t mask = (1u << layout_.bits) - 1;
    for (std::uint64_t i = 0; i < tile.rows; ++i)
      for (std::uint64_t j = 0; j < tile.cols; ++j) {
        const std::uint64_t at = tile.col + j;
        const std::uint32_t word = word_at(words.data() + i * bytes + (at / in_word - first) * 4);
        codes[i * tile.cols + j] = static_cast<std::uint8_t>(word >> (at % in_word * layout_.bits) & mask);
      }
    return {};
  }

  Status read_columns(const MatrixTile& tile, std::vector<std::uint8_t>& codes) const {
    Bytes words;
    const Slice slice{layout_.row_bytes, tile.col * layout_.bits / 32, (tile.cols * layout_.bits + 31) / 32,
                      tile.row * 4, tile.rows * 4};
    if (Status read = read_slice(parts_.codes, slice, words); !read.ok()) return read;
    for (std::uint64_t i = 0; i < tile.rows; ++i)
      unpack_down(words.data() + i * 4, slice.bytes, layout_.bits,
                  std::span(codes).subspan(i * tile.cols, tile.cols));
    return {};
  }

  /// Rows of [.., N/8] words, one for each column of the result.
  template <class T>
  Status read_awq(const QuantizedPart& part, std::uint64_t first, std::uint64_t count, const MatrixTile& tile,
                  std::vector<T>& out) const {
    const std::uint64_t from = tile.row / 8, bytes = ((tile.row + tile.rows - 1) / 8 - from + 1) * 4;
    Bytes words;
    if (Status read = read_slice(part, {layout_.rows / 8 * 4, first, count, from * 4, bytes}, words);
        !read.ok())
      return read;
    for (std::uint64_t i = 0; i < tile.rows; ++i) {
      const std::uint64_t row = tile.row + i;
      const unsigned shift = 4 * kAwqNibble[row % 8];
      for (std::uint64_t j = 0; j < count; ++j)
        out[i * count + j] =
            static_cast<T>(word_at(words.data() + j * bytes + (row / 8 - from) * 4) >> shift & 15u);
    }
    return {};
  }

  Status find_groups(const MatrixTile& tile, Work& work) const {
    work.group_of.resize(tile.cols);
    if (layout_.has_index) {
      Bytes stored(tile.cols * 4);
      if (Status read = parts_.index.file->read(parts_.index.offset + tile.col * 4, stored); !read.ok())
        return read;
      work.end_group = layout_.groups;
      for (std::uint64_t j = 0; j < tile.cols; ++j) {
        const std::uint32_t group = word_at(stored.data() + j * 4);
        if (group >= layout_.groups)
          return Failure{"its index puts column " + std::to_string(tile.col + j) + " in group " +
                         std::to_string(static_cast<std::int32_t>(group)) + ", expected 0 to " +
                         std::to_string(layout_.groups - 1)};
        work.group_of[j] = group;
      }
      return {};
    }
    work.first_group = tile.col / layout_.group;
    work.end_group = (tile.col + tile.cols - 1) / layout_.group + 1;
    for (std::uint64_t j = 0; j < tile.cols; ++j)
      work.group_of[j] = static_cast<std::uint32_t>((tile.col + j) / layout_.group - work.first_group);
    return {};
  }

  Status read_scales(const MatrixTile& tile, Work& work) const {
    const std::uint64_t size = dtype_bits(layout_.scale) / 8, groups = work.groups();
    float global = 1;
    if (layout_.has_global) {
      std::array<std::byte, sizeof(float)> stored{};
      if (Status read = parts_.global.file->read(parts_.global.offset, stored); !read.ok()) return read;
      std::memcpy(&global, stored.data(), sizeof global);
    }
    Bytes stored;
    std::uint64_t first_row = tile.row / layout_.scale_rows;
    const std::uint64_t rows = (tile.row + tile.rows - 1) / layout_.scale_rows - first_row + 1;
    const Slice slice =
        layout_.scale_columns
            ? Slice{layout_.rows * size, work.first_group, groups, tile.row * size, tile.rows * size}
            : Slice{layout_.groups * size, first_row, rows, work.first_group * size, groups * size};
    if (Status read = read_slice(parts_.scales, slice, stored); !read.ok()) return read;
    work.scales.resize(tile.rows * groups);
    for (std::uint64_t i = 0; i < tile.rows; ++i)
      for (std::uint64_t g = 0; g < groups; ++g) {
        const std::uint64_t at = layout_.scale_columns
                                     ? g * tile.rows + i
                                     : ((tile.row + i) / layout_.scale_rows - first_row) * groups + g;
        const float scale = scale_at(stored, at);
        work.scales[i * groups + g] = layout_.has_global ? scale / global : scale;
      }
    return {};
  }

  float scale_at(const Bytes& stored, std::uint64_t at) const {
    if (layout_.scale == DType::kU8) {
      const int exponent = static_cast<int>(std::to_integer<unsigned>(stored[at])) - 127;
      return exponent > 127 ? std::numeric_limits<float>::infinity() : std::ldexp(1.0F, exponent);
    }
    float scale = 0;
    widen_to_float(layout_.scale, stored, at, std::span(&scale, 1));
    return scale;
  }

  Status read_zeros(const MatrixTile& tile, Work& work) const {
    const std::uint64_t groups = work.groups();
    switch (layout_.zeros) {
      case ZeroPlacement::kNone: return {};
      case ZeroPlacement::kBytes: return read_zero_bytes(tile, work);
      case ZeroPlacement::kDown: return read_zeros_down(tile, work);
      case ZeroPlacement::kGptq1:
      case ZeroPlacement::kGptq2:
      case ZeroPlacement::kAutoRound: return read_zeros_across(tile, work);
      case ZeroPlacement::kAwq: break;
    }
    work.zeros.resize(tile.rows * groups);
    return read_awq(parts_.zeros, work.first_group, groups, tile, work.zeros);
  }

  /// Signed bytes that lie as the scales do.
  Status read_zero_bytes(const MatrixTile& tile, Work& work) const {
    const std::uint64_t groups = work.groups(), first_row = tile.row / layout_.scale_rows;
    const std::uint64_t rows = (tile.row + tile.rows - 1) / layout_.scale_rows - first_row + 1;
    Bytes stored;
    if (Status read =
            read_slice(parts_.zeros, {layout_.groups, first_row, rows, work.first_group, groups}, stored);
        !read.ok())
      return read;
    work.zeros.resize(tile.rows * groups);
    for (std::uint64_t i = 0; i < tile.rows; ++i)
      for (std::uint64_t g = 0; g < groups; ++g) {
        const std::byte byte = stored[((tile.row + i) / layout_.scale_rows - first_row) * groups + g];
        work.zeros[i * groups + g] = static_cast<float>(static_cast<std::int8_t>(byte));
      }
    return {};
  }

  /// Streams that run down the rows; tiles begin at a whole word.
  Status read_zeros_down(const MatrixTile& tile, Work& work) const {
    const std::uint64_t groups = work.groups(), start = tile.row / kTileStep * kTileStep;
    const std::uint64_t count = tile.row + tile.rows - start;
    Bytes words;
    const Slice slice{layout_.groups * 4, start * layout_.bits / 32, (count * layout_.bits + 31) / 32,
                      work.first_group * 4, groups * 4};
    if (Status read = read_slice(parts_.zeros, slice, words); !read.ok()) return read;
    std::vector<std::uint8_t> codes(count);
    work.zeros.resize(tile.rows * groups);
    for (std::uint64_t g = 0; g < groups; ++g) {
      unpack_down(words.data() + g * 4, slice.bytes, layout_.bits, codes);
      for (std::uint64_t i = 0; i < tile.rows; ++i)
        work.zeros[i * groups + g] = values_[codes[tile.row - start + i]];
    }
    return {};
  }

  /// GPTQ's.
  Status read_zeros_across(const MatrixTile& tile, Work& work) const {
    const std::uint64_t groups = work.groups(), start = tile.row / kTileStep * kTileStep;
    const std::uint64_t count = tile.row + tile.rows - start;
    Bytes words;
    const Slice slice{layout_.rows * layout_.bits / 8, work.first_group, groups, start * layout_.bits / 8,
                      (count * layout_.bits + 31) / 32 * 4};
    if (Status read = read_slice(parts_.zeros, slice, words); !read.ok()) return read;
    const bool less_one = layout_.zeros == ZeroPlacement::kGptq1;
    if (less_one && layout_.bits != 3) add_one_to_fields(words);
    std::vector<std::uint8_t> codes(count);
    work.zeros.resize(tile.rows * groups);
    for (std::uint64_t g = 0; g < groups; ++g) {
      unpack_down(words.data() + g * slice.bytes, 4, layout_.bits, codes);
      for (std::uint64_t i = 0; i < tile.rows; ++i) {
        unsigned zero = codes[tile.row - start + i];
        if (less_one && layout_.bits == 3) zero = (zero + 1) & 7u;
        if (layout_.zeros == ZeroPlacement::kAutoRound) ++zero;
        work.zeros[i * groups + g] = static_cast<float>(zero);
      }
    }
    return {};
  }

  /// As gptqmodel makes version 2 of version 1: one addition a word, so that a field that overflows (which no
  /// sound file has) carries into the next. Of three bits, whose fields cross words, it adds field by field.
  void add_one_to_fields(Bytes& words) const {
    std::uint32_t ones = 0;
    for (unsigned bit = 0; bit < 32; bit += layout_.bits) ones |= 1u << bit;
    for (std::size_t at = 0; at + 4 <= words.size(); at += 4) {
      const std::uint32_t word = word_at(words.data() + at) + ones;
      std::memcpy(words.data() + at, &word, sizeof word);
    }
  }

  QuantizedLayout layout_;
  QuantizedParts parts_;
  std::array<float, 256> values_;
};

}  // namespace

std::shared_ptr<const ComputedMatrix> make_quantized_matrix(const QuantizedLayout& layout,
                                                            const QuantizedParts& parts) {
  return std::make_shared<QuantizedMatrix>(layout, parts);
}

}  // namespace crumb
