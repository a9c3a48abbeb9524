#include "export/gguf/block_type.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/half.h"

namespace crumb::exporting {
namespace {

using Kind = GgmlCodes::Kind;

constexpr int kMostDoublings = 7;  // of values of at most eight bits

/// The least and the greatest level of a tensor, and how often values were doubled for them.
struct LevelRange {
  int doublings = 0;
  int least = 0, greatest = 0;
  bool has_others = false;  ///< than the least and the greatest
};

/// The codes that may occur.
std::vector<float> values_that_occur(const Encoding& encoding, const CodeGrid& grid) {
  const NumberFormat& number = *encoding.number;
  std::vector<float> values;
  for (int pattern = 0; pattern < 1 << number.bits; ++pattern) {
    const int code = number.code_of(static_cast<std::uint8_t>(pattern));
    const float value = grid.values[static_cast<std::size_t>(pattern)];
    const bool in_range = number.grid != Grid::kInteger || (code >= number.least_code(encoding.range) &&
                                                            code <= number.greatest_code(encoding.range));
    if (in_range && std::isfinite(value)) values.push_back(value);
  }
  return values;
}

/// Nothing where the values are no whole numbers, however often they are doubled.
std::optional<LevelRange> levels_of(const QuantizedView& tensor) {
  const RowDecoder decoder(tensor);
  const std::vector<float> values = values_that_occur(tensor.encoding, decoder.grid());
  LevelRange made;
  const auto is_whole = [&](float value) {
    const float level = std::ldexp(value, made.doublings);
    return level == std::round(level) && std::abs(level) <= 256;
  };
  while (!std::ranges::all_of(values, is_whole))
    if (++made.doublings > kMostDoublings) return std::nullopt;
  std::vector<int> levels;
  for (const float value : values) levels.push_back(static_cast<int>(std::ldexp(value, made.doublings)));
  const auto [least, greatest] = std::ranges::minmax(levels);
  made.has_others = std::ranges::any_of(levels, [least = least, greatest = greatest](int x) {
    return x != least && x != greatest;  // copies: clang 14 captures no bindings
  });
  int low = 0, high = 0;  // of zero points
  if (tensor.encoding.zero == ZeroPoint::kInteger) {
    for (std::uint64_t block = 0; block < tensor.layout.blocks(); ++block) {
      const int zero = static_cast<int>(decoder.zero_point(block));
      low = block == 0 ? zero : std::min(low, zero);
      high = block == 0 ? zero : std::max(high, zero);
    }
    made.has_others = true;
  }
  made.least = least - high;
  made.greatest = greatest - low;
  return made;
}

/// Whether blocks of so many neighbours, `group` of which have one scale, lie in the tensor's own.
bool divides(const QuantizedView& tensor, const GgmlCodes& codes) {
  const std::uint64_t cols = tensor.layout.matrix.cols, own = tensor.encoding.block_cols;
  return cols % codes.elements == 0 && (own % codes.group == 0 || own >= cols);
}

LevelRange mirrored(LevelRange levels) {
  levels.least = -std::exchange(levels.greatest, -levels.least);
  return levels;
}

bool holds(const GgmlCodes& codes, const LevelRange& levels) {
  const int most = codes.is_signed ? 127 : (1 << codes.bits) - 1;
  const int least = codes.is_signed ? -128 : 0;
  if (codes.step == 2) return levels.least == -1 && levels.greatest == 1 && !levels.has_others;
  // The fourth code of TQ2_0 is no value of a ternary grid.
  if (codes.elements == 256) return levels.least >= -1 && levels.greatest <= 1;
  return levels.least + codes.zero >= least && levels.greatest + codes.zero <= most;
}

bool is_micro(const QuantizedView& tensor, ScaleFormat scale) {
  const Encoding& encoding = tensor.encoding;
  return encoding.number->name == "e2m1" && encoding.scale == scale && encoding.scale_exponent == 0 &&
         encoding.zero == ZeroPoint::kNone && !encoding.signed_scales;
}

bool fits(const QuantizedView& tensor, const GgmlCodes& codes, const std::optional<LevelRange>& levels) {
  if (!divides(tensor, codes)) return false;
  const Encoding& encoding = tensor.encoding;
  switch (codes.kind) {
    case Kind::kE2M1:
      if (codes.group == 32) return is_micro(tensor, ScaleFormat::kE8M0) && !encoding.tensor_scale;
      return is_micro(tensor, ScaleFormat::kE4M3);
    case Kind::kMinimum:
      return encoding.zero == ZeroPoint::kMinimum && !encoding.number->is_signed &&
             encoding.number->bits <= static_cast<int>(codes.bits);
    case Kind::kLevels: break;
  }
  const bool has_levels = encoding.zero == ZeroPoint::kNone || encoding.zero == ZeroPoint::kInteger;
  return has_levels && levels && holds(codes, *levels);
}

/// The spec with a type of its own that is most like the tensor's.
std::string nearest_spec(const QuantizedView& tensor, const std::optional<LevelRange>& levels) {
  const Encoding& encoding = tensor.encoding;
  const int bits = encoding.number->bits;
  if (encoding.zero == ZeroPoint::kFloat || encoding.zero == ZeroPoint::kMinimum)
    return bits <= 4 ? "uint4:group=32:zero=min" : bits == 5 ? "uint5:group=32:zero=min" : "int8:group=32";
  if (encoding.number->name == "e2m1") return "mxfp4";
  if (levels && encoding.zero == ZeroPoint::kNone && levels->least >= -128 && levels->greatest <= 127)
    return std::string(encoding.number->name) + ":group=32";
  return bits <= 4 ? "int4:group=32" : bits == 5 ? "int5:group=32" : "int8:group=32";
}

/// levels_of, where zero points are whole numbers.
std::optional<LevelRange> whole_levels(const QuantizedView& tensor) {
  const ZeroPoint zero = tensor.encoding.zero;
  return zero == ZeroPoint::kNone || zero == ZeroPoint::kInteger ? levels_of(tensor) : std::nullopt;
}

std::string described(const Encoding& encoding) {
  std::string text(encoding.number->name);
  if (encoding.zero != ZeroPoint::kNone)
    text += " with zero=" + std::string(kZeroPointNames[static_cast<std::size_t>(encoding.zero)]);
  return text;
}

}  // namespace

Result<BlockType> find_block_type(const QuantizedView& tensor) {
  const std::uint64_t cols = tensor.layout.matrix.cols;
  const std::optional<LevelRange> levels = whole_levels(tensor);
  for (const GgmlCodes& codes : ggml_code_types()) {
    const bool has_levels = codes.kind == Kind::kLevels;
    if (fits(tensor, codes, levels))
      return BlockType{find_ggml_type(codes.type), &codes, has_levels ? levels->doublings : 0};
    if (has_levels && levels && fits(tensor, codes, mirrored(*levels)))
      return BlockType{find_ggml_type(codes.type), &codes, levels->doublings, true};
  }
  if (cols % 32 != 0)
    return Failure{"its rows have " + std::to_string(cols) +
                   " weights, which no GGUF type of codes divides (they have blocks of 32 and more); only "
                   "floats can go there: leave the tensor out when quantizing (--exclude)"};
  const std::uint64_t own = tensor.encoding.block_cols;
  const std::string what =
      own % 32 != 0 && own < cols && tensor.encoding.number->name != "e2m1"
          ? "groups of " + std::to_string(own) + " weights"
          : described(tensor.encoding) + " in groups of " + std::to_string(std::min(own, cols));
  return Failure{"no GGUF type holds " + what + "; the nearest that one does is " +
                 nearest_spec(tensor, levels)};
}

BlockRows::BlockRows(const QuantizedView& tensor, const BlockType& type, std::string name)
    : view_(tensor), decoder_(tensor), type_(type), name_(std::move(name)), codes_(codes_under(0)) {}

std::uint64_t BlockRows::row_bytes() const {
  return view_.layout.matrix.cols / type_.codes->elements * type_.type->block_bytes;
}

void BlockRows::fail(std::uint64_t block, const std::string& what, float number) const {
  throw Error(
      "tensor " + quote_text(name_) + ": " + what + " " + number_text(number) + " of block " +
      std::to_string(block) + " is none that " + std::string(type_.type->name) +
      " can hold, whose scales are float16 numbers; quantize with scale=f16, or this tensor with --set '" +
      name_ + "=" + nearest_spec(view_, whole_levels(view_)) + "'");
}

std::uint16_t BlockRows::scale_bits(std::uint64_t block) const {
  if (type_.codes->kind == Kind::kE2M1) {
    const auto bits = std::to_integer<std::uint16_t>(view_.scales[view_.layout.slot(block)]);
    if (type_.codes->group == 32 && bits == kE8M0Zero) fail(block, "the scale", 0);
    return bits;
  }
  const float scale = decoder_.scale(block);
  const float d = std::ldexp(scale, -type_.doublings);
  std::uint16_t bits = float_to_f16(d);
  // Halving may round a subnormal: twice the half must be the scale again.
  if (std::ldexp(f16_to_float(bits), type_.doublings) != scale || std::signbit(d) != std::signbit(scale))
    fail(block, type_.doublings == 0 ? "the scale" : "a part of the scale", d);
  constexpr std::uint16_t kSign = 0x8000;
  if (type_.mirrored && scale != 0) bits ^= kSign;
  return bits;
}

std::uint16_t BlockRows::minimum_bits(std::uint64_t block) const {
  const float minimum = decoder_.zero_point(block);
  const std::uint16_t bits = float_to_f16(minimum);
  if (f16_to_float(bits) != minimum) fail(block, "the minimum", minimum);
  return bits;
}

void BlockRows::place(std::uint64_t block, std::span<const std::uint8_t> patterns,
                      std::uint8_t* codes) const {
  if (type_.codes->kind != Kind::kLevels) {
    std::ranges::copy(patterns, codes);
    return;
  }
  const bool has_zero = view_.encoding.zero != ZeroPoint::kNone;
  const auto table = has_zero ? codes_under(decoder_.zero_point(block)) : codes_;
  std::ranges::transform(patterns, codes, [&](std::uint8_t pattern) { return table[pattern]; });
}

/// GGUF's code of every pattern, under a zero point.
std::array<std::uint8_t, 256> BlockRows::codes_under(float zero) const {
  std::array<std::uint8_t, 256> table{};
  for (int pattern = 0; pattern < 1 << view_.encoding.number->bits; ++pattern) {
    const float value = decoder_.grid().values[static_cast<std::size_t>(pattern)];
    if (!std::isfinite(value)) continue;
    const int meant = static_cast<int>(std::ldexp(value - zero, type_.doublings));
    const int level = type_.mirrored ? -meant : meant;
    table[static_cast<std::size_t>(pattern)] =
        static_cast<std::uint8_t>((level + type_.codes->zero) / type_.codes->step);
  }
  return table;
}

void BlockRows::encode(std::uint64_t row, std::span<std::byte> out) const {
  const GgmlCodes& codes = *type_.codes;
  const std::uint64_t first = view_.layout.first_block(row);
  std::array<std::uint8_t, kMostBlockCodes> patterns{}, placed{};
  std::array<std::uint16_t, kMostBlockScales + 1> scales{};
  std::byte* to = out.data();
  for (std::uint64_t col = 0; col < view_.layout.matrix.cols; col += codes.elements) {
    decoder_.codes(row, col, std::span(patterns).first(codes.elements));
    for (unsigned group = 0; group < codes.scales(); ++group) {
      const std::uint64_t block =
          first + (col + std::uint64_t{group} * codes.group) / view_.encoding.block_cols;
      scales[group] = scale_bits(block);
      if (codes.has_minimum()) scales[codes.scales()] = minimum_bits(block);
      place(block, std::span(patterns).subspan(group * codes.group, codes.group),
            placed.data() + group * codes.group);
    }
    codes.join(placed.data(), scales.data(), to);
    to += type_.type->block_bytes;
  }
}

}  // namespace crumb::exporting
