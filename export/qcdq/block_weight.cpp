#include "export/qcdq/block_weight.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "base/files/counted.h"
#include "base/threads/parallel.h"
#include "formats/number/packing.h"
#include "quant/quantized_tensor.h"

namespace crumb::exporting {
namespace {

using graph::QuantizedConstant;

constexpr std::int64_t kLeastBlock = 16, kMostBlock = 256;
constexpr std::int64_t kUsualBlock = 32;  // where none divides the columns
constexpr int kMostDoublings = 7;
constexpr int kMostBitsOfFloatZeros = 4;

bool is_whole_number(float x) { return std::isfinite(x) && std::trunc(x) == x; }

/// Values that a code of the encoding may have, before zero point and scale.
std::vector<float> code_values(const Encoding& encoding, const CodeGrid& grid) {
  const NumberFormat& number = *encoding.number;
  std::vector<float> values;
  for (int pattern = 0; pattern < 1 << number.bits; ++pattern) {
    const int code = number.code_of(static_cast<std::uint8_t>(pattern));
    const bool in_range = number.grid != Grid::kInteger || (code >= number.least_code(encoding.range) &&
                                                            code <= number.greatest_code(encoding.range));
    const float value = grid.values[static_cast<std::size_t>(pattern)];
    if (in_range && std::isfinite(value)) values.push_back(value);
  }
  return values;
}

/// The columns to a scale of the file; 0 where no power of two from 16 on divides the groups.
std::int64_t block_for(const QuantizedTensor& tensor) {
  const auto columns = static_cast<std::int64_t>(tensor.layout.matrix.cols),
             own = static_cast<std::int64_t>(tensor.encoding.block_cols);
  const std::int64_t divided = own >= columns ? columns : own;
  std::int64_t block = kMostBlock;
  while (block >= kLeastBlock && divided % block != 0) block /= 2;
  if (block >= kLeastBlock) return block;
  return own >= columns ? (columns <= kLeastBlock ? kLeastBlock : kUsualBlock) : 0;
}

/// The zero point of the file that gives the values of a block; nothing where there is none.
class ZeroPoints {
 public:
  ZeroPoints(const Encoding& encoding, const RowDecoder& decoder, const std::vector<float>& values,
             float offset)
      : encoding_(encoding), decoder_(decoder), values_(values), offset_(offset) {}

  std::optional<float> of(std::uint64_t block) const {
    const float own = decoder_.zero_point(block);
    if (encoding_.zero == ZeroPoint::kMinimum) return of_minimum(own, decoder_.scale(block));
    const float zero = own + offset_;
    for (const float value : values_)
      if ((value + offset_) - zero != value - own) return std::nullopt;
    return zero;
  }

 private:
  std::optional<float> of_minimum(float minimum, float scale) const {
    const float zero = scale == 0 ? 0 : -minimum / scale;
    if (!std::isfinite(zero)) return std::nullopt;
    for (const float value : values_) {
      const float product = value * scale;
      if ((value - zero) * scale != product + minimum) return std::nullopt;
    }
    return zero;
  }

  const Encoding& encoding_;
  const RowDecoder& decoder_;
  const std::vector<float>& values_;
  float offset_;
};

/// The spec with a form that is most like the constant's.
std::string nearest_spec(const Encoding& encoding, bool has_block) {
  const NumberFormat& number = *encoding.number;
  const std::string group = ":group=" + std::to_string(has_block                  ? kUsualBlock
                                                       : encoding.block_cols < 24 ? 16
                                                                                  : 32);
  if (encoding.zero == ZeroPoint::kFloat || encoding.zero == ZeroPoint::kMinimum)
    return number.bits <= kMostBitsOfFloatZeros ? "uint4" + group + ":zero=float"
                                                : "uint8" + group + ":zero=int";
  const bool has_levels =
      number.grid == Grid::kInteger || number.grid == Grid::kHalfInteger || number.grid == Grid::kBinary;
  if (has_levels)
    return std::string(number.name) + group + (encoding.zero == ZeroPoint::kInteger ? ":zero=int" : "");
  return (number.bits <= 4 ? "int4" : "int8") + group;
}

/// Where codes of a width lie; nothing where they do not fit.
std::optional<float> offset_for(int bits, const Encoding& encoding, float least, float greatest) {
  const auto codes = static_cast<float>(1 << bits);
  const float middle = is_whole_number(least) ? codes / 2 : (codes - 1) / 2;
  const auto fits = [&](float offset) { return least + offset >= 0 && greatest + offset <= codes - 1; };
  const bool is_unsigned = encoding.zero != ZeroPoint::kNone && least >= 0;  // codes stay as they are
  if (!is_unsigned && fits(middle)) return middle;
  if (fits(0) && is_whole_number(least)) return 0.0F;
  return std::nullopt;
}

/// Whether scales can be halved so often.
bool can_halve(const RowDecoder& decoder, std::uint64_t blocks, int doublings) {
  if (doublings == 0) return true;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const float scale = decoder.scale(block);
    if (std::ldexp(std::ldexp(scale, -doublings), doublings) != scale) return false;
  }
  return true;
}

/// Fills in the kind of zero points. A block that has none: its number; else as many as there are blocks.
std::uint64_t take_zeros(BlockWeight& made, const ZeroPoints& zeros, std::uint64_t blocks) {
  const auto codes = static_cast<float>(1 << made.bits);
  made.usual_zeros = true;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const auto zero = zeros.of(block);
    if (!zero) return block;
    const bool fits = is_whole_number(*zero) && *zero >= 0 && *zero < codes;
    made.usual_zeros = made.usual_zeros && *zero == codes / 2;
    made.float_zeros = made.float_zeros || !fits;
  }
  return blocks;
}

/// Values of the codes times 2^doublings, the fewest that make them whole, or halves where `halves`.
struct Levels {
  int doublings = 0;
  float least = 0, greatest = 0;
};
std::optional<Levels> levels_of(const std::vector<float>& values, bool halves) {
  Levels made;
  const auto fits = [&](float value) {
    return is_whole_number(std::ldexp(value, made.doublings) + (halves ? 0.5F : 0));
  };
  while (!std::ranges::all_of(values, fits))
    if (halves || ++made.doublings > kMostDoublings) return std::nullopt;
  const auto [least, greatest] = std::ranges::minmax(values);
  made.least = std::ldexp(least, made.doublings);
  made.greatest = std::ldexp(greatest, made.doublings);
  return made;
}

}  // namespace

Result<BlockWeight> find_block_weight(const QuantizedConstant& constant) {
  const QuantizedTensor& tensor = *constant.tensor;
  const Encoding& encoding = tensor.encoding;
  const RowDecoder decoder(tensor.view());
  const std::vector<float> values = code_values(encoding, decoder.grid());
  BlockWeight made{.block = block_for(tensor)};
  const auto failure = [&](const std::string& what) {
    return Failure{what + "; the nearest that MatMulNBits holds is " +
                   nearest_spec(encoding, made.block != 0)};
  };
  if (made.block == 0) return failure("has groups of " + std::to_string(encoding.block_cols));
  const std::uint64_t blocks = tensor.layout.blocks();
  const auto halves = encoding.zero == ZeroPoint::kNone ? levels_of(values, true) : std::nullopt;
  const auto whole = levels_of(values, false);
  std::uint64_t unfit = blocks;
  for (const int bits : {2, 4, 8}) {
    for (const auto& levels : {halves, whole}) {
      if (!levels || (levels->doublings > 0 && encoding.zero != ZeroPoint::kNone)) continue;
      const auto offset = offset_for(bits, encoding, levels->least, levels->greatest);
      if (!offset || !can_halve(decoder, blocks, levels->doublings)) continue;
      made.bits = bits;
      made.doublings = levels->doublings;
      made.offset = *offset;
      made.float_zeros = false;
      unfit = take_zeros(made, {encoding, decoder, values, *offset}, blocks);
      if (unfit == blocks && (!made.float_zeros || bits <= kMostBitsOfFloatZeros)) return made;
    }
  }
  const std::string spec(encoding.number->name);
  if (encoding.zero == ZeroPoint::kMinimum && unfit < blocks)
    return failure("has minima (zero=min), and that of block " + std::to_string(unfit) + ", " +
                   number_text(decoder.zero_point(unfit)) + ", is no multiple of its scale " +
                   number_text(decoder.scale(unfit)) + " that gives the same values");
  if (made.float_zeros)
    return failure("has " + spec +
                   " codes and zero points that are floats, which onnxruntime runs with at "
                   "most four bits");
  return failure("has " + spec + " codes" + (encoding.zero == ZeroPoint::kNone ? "" : " and zero points") +
                 ", which are no whole numbers of eight bits");
}

namespace {

/// What both a reader of rows and one of blocks need.
struct Placing {
  QuantizedConstant constant;
  BlockWeight weight;
  std::uint64_t rows = 0, columns = 0, blocks = 0, blob = 0;

  Placing(const QuantizedConstant& of, const BlockWeight& as)
      : constant(of),
        weight(as),
        rows(of.tensor->layout.matrix.rows),
        columns(of.tensor->layout.matrix.cols),
        blocks((columns + static_cast<std::uint64_t>(as.block) - 1) / static_cast<std::uint64_t>(as.block)),
        blob(static_cast<std::uint64_t>(as.block) / 8 * static_cast<std::uint64_t>(as.bits)) {}

  /// The constant's block that holds block `at` of a row of the file.
  std::uint64_t block(std::uint64_t row, std::uint64_t at) const {
    const QuantizedTensor& tensor = *constant.tensor;
    return tensor.layout.first_block(row) +
           at * static_cast<std::uint64_t>(weight.block) / tensor.encoding.block_cols;
  }
  std::vector<std::int64_t> shape(std::uint64_t last) const {
    return {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(last)};
  }
};

std::vector<std::byte> packed_codes_of(const Placing& placing) {
  const RowDecoder decoder(placing.constant.tensor->view());
  const BlockWeight& weight = placing.weight;
  std::array<std::uint8_t, 256> table{};
  for (std::size_t pattern = 0; pattern < table.size(); ++pattern) {
    const float code = std::ldexp(decoder.grid().values[pattern], weight.doublings) + weight.offset;
    if (is_whole_number(code) && code >= 0 && code <= 255) table[pattern] = static_cast<std::uint8_t>(code);
  }
  const std::uint64_t row_bytes = placing.blocks * placing.blob;
  std::vector<std::byte> bytes(placing.rows * row_bytes);
  parallel_for(placing.rows, 1 + 65536 / placing.columns, 0, [&](std::size_t begin, std::size_t end) {
    std::vector<std::uint8_t> codes(placing.blocks * static_cast<std::uint64_t>(weight.block));
    const std::span<std::uint8_t> own = std::span(codes).first(placing.columns);
    for (std::size_t row = begin; row < end; ++row) {
      decoder.codes(row, 0, own);
      for (std::uint8_t& code : own) code = table[code];
      pack_codes(codes, weight.bits, reinterpret_cast<std::uint8_t*>(bytes.data() + row * row_bytes));
    }
  });
  return bytes;
}

/// For every block of every row, what `of` says of the constant's block.
template <class Of>
std::vector<float> of_blocks(const Placing& placing, const Of& of) {
  std::vector<float> numbers;
  numbers.reserve(placing.rows * placing.blocks);
  for (std::uint64_t row = 0; row < placing.rows; ++row)
    for (std::uint64_t at = 0; at < placing.blocks; ++at) numbers.push_back(of(placing.block(row, at)));
  return numbers;
}

graph::Tensor zeros_tensor(const Placing& placing, const std::vector<float>& zeros) {
  if (placing.weight.float_zeros) return graph::Tensor::floats(placing.shape(placing.blocks), zeros);
  const int bits = placing.weight.bits;
  const std::uint64_t row_bytes = packed_bytes(placing.blocks, bits);
  std::vector<std::byte> bytes(placing.rows * row_bytes);
  std::vector<std::uint8_t> codes(placing.blocks);
  for (std::uint64_t row = 0; row < placing.rows; ++row) {
    for (std::uint64_t at = 0; at < placing.blocks; ++at)
      codes[at] = static_cast<std::uint8_t>(zeros[row * placing.blocks + at]);
    pack_codes(codes, bits, reinterpret_cast<std::uint8_t*>(bytes.data() + row * row_bytes));
  }
  return {graph::ElementType::kUint8, placing.shape(row_bytes), std::move(bytes)};
}

}  // namespace

BlockTensors tensors_of(const QuantizedConstant& constant, const BlockWeight& weight) {
  const Placing placing(constant, weight);
  const QuantizedTensor& tensor = *constant.tensor;
  const RowDecoder decoder(tensor.view());
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(placing.rows),
                                        static_cast<std::int64_t>(placing.blocks),
                                        static_cast<std::int64_t>(placing.blob)};
  const std::vector<float> scales = of_blocks(
      placing, [&](std::uint64_t block) { return std::ldexp(decoder.scale(block), -weight.doublings); });
  BlockTensors made{.codes = graph::Tensor::unread(graph::ElementType::kUint8, shape,
                                                   [placing] { return packed_codes_of(placing); }),
                    .scales = graph::Tensor::floats(placing.shape(placing.blocks), scales),
                    .zeros = {}};
  if (weight.usual_zeros) return made;
  const std::vector<float> values = code_values(tensor.encoding, decoder.grid());
  const ZeroPoints zeros(tensor.encoding, decoder, values, weight.offset);
  made.zeros =
      zeros_tensor(placing, of_blocks(placing, [&](std::uint64_t block) { return zeros.of(block).value(); }));
  return made;
}

}  // namespace crumb::exporting
