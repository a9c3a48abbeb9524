#include "graph/onnx/block_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/files/counted.h"
#include "formats/half.h"
#include "formats/number/packing.h"
#include "quant/quant_spec.h"

namespace crumb::graph {
namespace {

/// Scales and zero points of all blocks, row by row.
struct BlockNumbers {
  std::vector<float> scales;
  std::vector<float> zeros;      ///< as many
  std::vector<bool> complement;  ///< whether a block's codes become 2^bits - 1 less the code; empty: none
};

Result<std::vector<float>> finite_numbers(const Tensor& tensor, const char* what) {
  std::vector<float> numbers = tensor.to_floats();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!std::isfinite(numbers[i]))
      return Failure{std::string(what) + " " + std::to_string(i) + " is " + number_text(numbers[i]) +
                     ", expected a finite number"};
  return numbers;
}

bool is_scale_type(ElementType type) {
  return type == ElementType::kFloat || type == ElementType::kFloat16 || type == ElementType::kBfloat16;
}

Failure misfit(const char* what, const Tensor& tensor, std::int64_t expected) {
  return {std::string(what) + " are " + std::string(name_of(tensor.type())) + " of shape " +
          text_of(tensor.shape()) + ", expected " + std::to_string(expected) + " numbers"};
}

Result<std::vector<float>> zeros_of(const BlockCodes& from) {
  const std::int64_t blocks = from.blocks();
  const auto count = static_cast<std::size_t>(from.rows * blocks);
  if (!from.zeros) return std::vector<float>(count, static_cast<float>(1 << (from.bits - 1)));
  const Tensor& stored = *from.zeros;
  if (stored.type() != ElementType::kUint8) {
    if (stored.type() != from.scales.type())
      return Failure{"the zero points are " + std::string(name_of(stored.type())) + ", expected uint8 or " +
                     std::string(name_of(from.scales.type())) + ", the type of the scales"};
    if (stored.size() != from.rows * blocks) return misfit("zero points", stored, from.rows * blocks);
    return finite_numbers(stored, "zero point");
  }
  const auto bytes =
      static_cast<std::int64_t>(crumb::packed_bytes(static_cast<std::uint64_t>(blocks), from.bits));
  if (stored.size() != from.rows * bytes) return misfit("packed zero points", stored, from.rows * bytes);
  const HeldBytes held = stored.held();
  const auto* const in = reinterpret_cast<const std::uint8_t*>(held.bytes().data());
  std::vector<std::uint8_t> row(static_cast<std::size_t>(blocks));
  std::vector<float> zeros;
  zeros.reserve(count);
  for (std::int64_t n = 0; n < from.rows; ++n) {
    unpack_codes(in + n * bytes, from.bits, 0, row);
    zeros.insert(zeros.end(), row.begin(), row.end());
  }
  return zeros;
}

Result<BlockNumbers> numbers_of(const BlockCodes& from) {
  if (!is_scale_type(from.scales.type()) || from.scales.size() != from.rows * from.blocks())
    return misfit("scales", from.scales, from.rows * from.blocks());
  BlockNumbers made;
  auto scales = finite_numbers(from.scales, "scale");
  if (!scales.ok()) return scales.failure();
  auto zeros = zeros_of(from);
  if (!zeros.ok()) return zeros.failure();
  made.scales = scales.take();
  made.zeros = zeros.take();
  return made;
}

/// Makes scales positive: (c - z) * s = ((m - c) - (m - z)) * -s, m being the greatest code.
Status take_signs(int bits, BlockNumbers& numbers) {
  const auto is_negative = [](float s) { return std::signbit(s); };
  if (std::ranges::none_of(numbers.scales, is_negative)) return {};
  const int most = (1 << bits) - 1;
  const auto top = static_cast<float>(most);
  numbers.complement.resize(numbers.scales.size());
  for (std::size_t i = 0; i < numbers.scales.size(); ++i) {
    if (!is_negative(numbers.scales[i])) continue;
    const float zero = numbers.zeros[i];
    for (int c = 0; c <= most; ++c) {
      const auto code = static_cast<float>(c);
      if ((top - code) - (top - zero) != -(code - zero))
        return Failure{"scale " + std::to_string(i) + " is negative, and " + std::to_string(most) +
                       " less its zero point, " + number_text(zero) + ", is no float32"};
    }
    numbers.complement[i] = true;
    numbers.scales[i] = -numbers.scales[i];
    numbers.zeros[i] = top - zero;
  }
  return {};
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

/// Leaves one number a row where the blocks of each row have the same ones; whether they have.
bool take_channels(BlockNumbers& numbers, std::size_t blocks) {
  if (blocks == 1) return true;
  const auto is_constant = [&](const std::vector<float>& all) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!same_bits(all[i], all[i - i % blocks])) return false;
    return true;
  };
  if (!is_constant(numbers.scales) || !is_constant(numbers.zeros)) return false;
  for (std::vector<float>* all : {&numbers.scales, &numbers.zeros}) {
    for (std::size_t n = 0; n * blocks < all->size(); ++n) (*all)[n] = (*all)[n * blocks];
    all->resize(all->size() / blocks);
  }
  return true;
}

bool holds(ScaleFormat format, const std::vector<float>& numbers) {
  return std::ranges::all_of(
      numbers, [&](float x) { return same_bits(decode_scale(format, encode_float(format, x)), x); });
}

/// Packed codes, without what stands behind the last column.
void copy_codes(const BlockCodes& from, const std::vector<bool>& complement, QuantizedTensor& to) {
  const HeldBytes held = from.codes.held();
  const std::size_t row = to.layout.row_bytes;
  const auto blob = static_cast<std::size_t>(from.block) * static_cast<std::size_t>(from.bits) / 8;
  to.codes.resize(to.layout.codes_bytes);
  const auto used = static_cast<std::uint64_t>(from.columns) * static_cast<std::uint64_t>(from.bits) % 8;
  const auto last = static_cast<std::byte>(used == 0 ? 0xff : (1U << used) - 1);
  for (std::int64_t n = 0; n < from.rows; ++n) {
    std::byte* const out = to.codes.data() + static_cast<std::size_t>(n) * row;
    std::memcpy(out, held.bytes().data() + n * from.row_bytes, row);
    for (std::size_t i = 0; i < row && !complement.empty(); ++i)
      if (complement[static_cast<std::size_t>(n * from.blocks()) + i / blob]) out[i] = ~out[i];
    out[row - 1] &= last;
  }
}

/// Whether a code is 0.
bool has_code_zero(const QuantizedTensor& tensor, int bits) {
  std::vector<std::uint8_t> codes(tensor.layout.matrix.cols);
  const auto* const in = reinterpret_cast<const std::uint8_t*>(tensor.codes.data());
  for (std::uint64_t n = 0; n < tensor.layout.matrix.rows; ++n) {
    unpack_codes(in + n * tensor.layout.row_bytes, bits, 0, codes);
    if (std::ranges::find(codes, 0) != codes.end()) return true;
  }
  return false;
}

/// Unsigned codes as those of a format with a sign, 2^(bits - 1) less: their highest bits change.
void give_sign(const BlockCodes& from, QuantizedTensor& tensor) {
  const auto highest = static_cast<std::byte>(from.bits == 8 ? 0x80 : from.bits == 4 ? 0x88 : 0xaa);
  const std::size_t row = tensor.layout.row_bytes;
  const auto used = static_cast<std::uint64_t>(from.columns) * static_cast<std::uint64_t>(from.bits) % 8;
  const auto last = static_cast<std::byte>(used == 0 ? 0xff : (1U << used) - 1);
  for (std::size_t i = 0; i < tensor.codes.size(); ++i)
    tensor.codes[i] ^= i % row == row - 1 ? highest & last : highest;
}

void put_numbers(std::vector<std::byte>& to, ScaleFormat format, const std::vector<float>& numbers) {
  const auto bytes = static_cast<std::size_t>(scale_format_row(format).bytes);
  to.resize(numbers.size() * bytes);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint32_t pattern = encode_float(format, numbers[i]);
    std::memcpy(to.data() + i * bytes, &pattern, bytes);
  }
}

/// The format, its zero points, and whether codes lose 2^(bits - 1).
struct Meaning {
  std::string number;
  ZeroPoint zero = ZeroPoint::kNone;
  bool gets_sign = false;
};

Meaning meaning_of(int bits, const std::vector<float>& zeros) {
  const std::string digits = std::to_string(bits);
  const auto all = [&](float wanted) {
    return std::ranges::all_of(zeros, [&](float z) { return z == wanted; });
  };
  const int most = (1 << bits) - 1;
  if (all(static_cast<float>(1 << (bits - 1)))) return {.number = "int" + digits, .gets_sign = true};
  if (all(static_cast<float>(most) / 2) && find_number_format("int" + digits + "h"))
    return {.number = "int" + digits + "h", .gets_sign = true};
  if (all(0)) return {.number = "uint" + digits};
  const bool whole = std::ranges::all_of(
      zeros, [&](float z) { return std::trunc(z) == z && z >= 0 && z <= static_cast<float>(most); });
  return {.number = "uint" + digits, .zero = whole ? ZeroPoint::kInteger : ZeroPoint::kFloat};
}

ScaleFormat scale_format_for(const BlockNumbers& numbers, bool of_groups, ZeroPoint zero,
                             ElementType stored) {
  const bool has_floats = zero == ZeroPoint::kFloat;
  for (const ScaleFormat format : {ScaleFormat::kF16, ScaleFormat::kBF16}) {
    const bool is_type =
        stored == (format == ScaleFormat::kF16 ? ElementType::kFloat16 : ElementType::kBfloat16);
    if (!is_type && !of_groups) continue;
    if (holds(format, numbers.scales) && (!has_floats || holds(format, numbers.zeros))) return format;
  }
  return ScaleFormat::kF32;
}

void put_zeros(QuantizedTensor& tensor, const std::vector<float>& zeros) {
  if (tensor.encoding.zero == ZeroPoint::kFloat)
    return put_numbers(tensor.zeros, zero_point_format(tensor.encoding.scale), zeros);
  if (tensor.encoding.zero != ZeroPoint::kInteger) return;
  std::vector<std::uint8_t> codes(zeros.size());
  std::ranges::transform(zeros, codes.begin(), [](float z) { return static_cast<std::uint8_t>(z); });
  tensor.zeros.resize(tensor.layout.zeros_bytes);
  pack_codes(codes, tensor.encoding.number->bits, reinterpret_cast<std::uint8_t*>(tensor.zeros.data()));
}

}  // namespace

Result<QuantizedTensor> tensor_of_blocks(const BlockCodes& from) {
  if (from.codes.type() != ElementType::kUint8 || from.codes.size() != from.rows * from.row_bytes)
    return misfit("codes", from.codes, from.rows * from.row_bytes);
  auto found = numbers_of(from);
  if (!found.ok()) return found.failure();
  BlockNumbers numbers = found.take();
  if (const Status positive = take_signs(from.bits, numbers); !positive.ok()) return positive.failure();
  const bool of_channels = take_channels(numbers, static_cast<std::size_t>(from.blocks()));
  const Meaning meaning = meaning_of(from.bits, numbers.zeros);

  QuantSpec spec{.number = find_number_format(meaning.number)};
  spec.granularity = of_channels ? Granularity::kChannel : Granularity::kGroup;
  if (!of_channels) spec.block_cols = static_cast<std::uint64_t>(from.block);
  spec.range = spec.number->default_range();
  spec.zero = meaning.zero;
  spec.scale = scale_format_for(numbers, !of_channels, meaning.zero, from.scales.type());
  spec.pad = !of_channels && from.columns % from.block != 0;

  QuantizedTensor made;
  made.shape = {static_cast<std::uint64_t>(from.rows), static_cast<std::uint64_t>(from.columns)};
  made.encoding = spec.encoding(made.shape);
  made.layout = encoded_layout(made.encoding, made.shape).take();
  copy_codes(from, numbers.complement, made);
  if (meaning.gets_sign && spec.number->has_range() && has_code_zero(made, from.bits))
    made.encoding.range = spec.range = Range::kFull;
  if (meaning.gets_sign) give_sign(from, made);

  put_numbers(made.scales, spec.scale, numbers.scales);
  put_zeros(made, numbers.zeros);
  made.spec = spec.to_string();
  return made;
}

}  // namespace crumb::graph
