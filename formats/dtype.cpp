#include "formats/dtype.h"

#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "formats/half.h"

namespace crumb {
namespace {

static_assert(std::endian::native == std::endian::little, "stored tensors are read in place");

constexpr bool table_is_in_order() {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].dtype != static_cast<DType>(i)) return false;
  return true;
}
static_assert(table_is_in_order());

/// Which codes of a small float are not plain numbers.
enum class Specials {
  kNone,    ///< every code is finite
  kIeee,    ///< the top exponent is infinity (mantissa 0) or NaN
  kTopNan,  ///< only all ones (with either sign) is NaN: OCP e4m3fn
  kFnuz,    ///< only the code of -0 is NaN
};

constexpr float power_of_two(int exponent) {
  float value = 1.0f;
  for (; exponent > 0; --exponent) value *= 2.0f;
  for (; exponent < 0; ++exponent) value *= 0.5f;
  return value;
}

constexpr float decode_minifloat_bits(unsigned code, int exp_bits, int man_bits, int bias,
                                      Specials specials) {
  const unsigned man_mask = (1u << man_bits) - 1u;
  const unsigned exp_mask = (1u << exp_bits) - 1u;
  const unsigned mantissa = code & man_mask;
  const unsigned exponent = (code >> man_bits) & exp_mask;
  const bool negative = ((code >> (man_bits + exp_bits)) & 1u) != 0;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  if (specials == Specials::kFnuz && negative && exponent == 0 && mantissa == 0) return nan;
  if (specials == Specials::kTopNan && exponent == exp_mask && mantissa == man_mask)
    return negative ? -nan : nan;
  if (specials == Specials::kIeee && exponent == exp_mask) {
    const float value = mantissa == 0 ? inf : nan;
    return negative ? -value : value;
  }
  const unsigned significand = exponent == 0 ? mantissa : mantissa | (1u << man_bits);
  const int scale = static_cast<int>(exponent == 0 ? 1u : exponent) - bias - man_bits;
  const float value = static_cast<float>(significand) * power_of_two(scale);
  return negative ? -value : value;
}

template <std::size_t kCodes>
constexpr std::array<float, kCodes> decode_table(int exp_bits, int man_bits, int bias, Specials specials) {
  std::array<float, kCodes> table{};
  for (unsigned code = 0; code < kCodes; ++code)
    table[code] = decode_minifloat_bits(code, exp_bits, man_bits, bias, specials);
  return table;
}

constexpr std::array<float, 256> e8m0_table() {
  std::array<float, 256> table{};
  for (int code = 0; code < 255; ++code) table[static_cast<std::size_t>(code)] = power_of_two(code - 127);
  table[255] = std::numeric_limits<float>::quiet_NaN();
  return table;
}

constexpr auto kF4Table = decode_table<16>(2, 1, 1, Specials::kNone);
constexpr auto kF6E2M3Table = decode_table<64>(2, 3, 1, Specials::kNone);
constexpr auto kF6E3M2Table = decode_table<64>(3, 2, 3, Specials::kNone);
constexpr auto kF8E5M2Table = decode_table<256>(5, 2, 15, Specials::kIeee);
constexpr auto kF8E4M3Table = decode_table<256>(4, 3, 7, Specials::kTopNan);
constexpr auto kF8E4M3FnuzTable = decode_table<256>(4, 3, 8, Specials::kFnuz);
constexpr auto kF8E5M2FnuzTable = decode_table<256>(5, 2, 16, Specials::kFnuz);
constexpr auto kF8E8M0Table = e8m0_table();

template <class T, class Convert>
void widen(std::span<const std::byte> tensor, std::uint64_t begin, std::span<float> out, Convert convert) {
  const std::byte* source = tensor.data() + begin * sizeof(T);
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, source + i * sizeof(T), sizeof(T));
    out[i] = convert(value);
  }
}

template <class T>
void widen_number(std::span<const std::byte> tensor, std::uint64_t begin, std::span<float> out) {
  widen<T>(tensor, begin, out, [](T value) { return static_cast<float>(value); });
}

void widen_codes(std::span<const std::byte> tensor, std::uint64_t begin, std::span<float> out,
                 std::span<const float, 256> table) {
  widen<std::uint8_t>(tensor, begin, out, [table](std::uint8_t code) { return table[code]; });
}

/// Codes of 4 or 6 bits, least significant bit first; a code may straddle two bytes.
void widen_packed(std::span<const std::byte> tensor, std::uint64_t begin, std::span<float> out, unsigned bits,
                  std::span<const float> table) {
  const unsigned mask = (1u << bits) - 1u;
  std::uint64_t position = begin * bits;
  for (float& value : out) {
    const std::uint64_t byte = position / 8;
    unsigned window = std::to_integer<unsigned>(tensor[byte]);
    if (position % 8 + bits > 8) window |= std::to_integer<unsigned>(tensor[byte + 1]) << 8;
    value = table[(window >> (position % 8)) & mask];
    position += bits;
  }
}

}  // namespace

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& info : kDTypes)
    if (info.name == name) return info.dtype;
  return std::nullopt;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  constexpr std::size_t kShown = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i < kShown; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  if (shape.size() > kShown) text += ", ... (rank " + std::to_string(shape.size()) + ")";
  return text + "]";
}

Result<std::uint64_t> element_count(std::span<const std::uint64_t> shape) {
  std::uint64_t count = 1;
  bool empty = false;
  for (const std::uint64_t size : shape) {
    if (size == 0)
      empty = true;
    else if (__builtin_mul_overflow(count, size, &count))
      return Failure{"the shape " + shape_text(shape) + " has more elements than 64 bits can count"};
  }
  return empty ? 0 : count;
}

Result<std::uint64_t> tensor_byte_size(DType dtype, std::span<const std::uint64_t> shape) {
  const Result<std::uint64_t> count = element_count(shape);
  if (!count.ok()) return count;
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(count.value(), std::uint64_t{dtype_bits(dtype)}, &bits))
    return Failure{"the shape " + shape_text(shape) + " of " + std::string(dtype_name(dtype)) +
                   " has more bits than 64 bits can count"};
  if (bits % 8 != 0)
    return Failure{"the shape " + shape_text(shape) + " of " + std::string(dtype_name(dtype)) + " comes to " +
                   std::to_string(bits) + " bits, which is not a whole number of bytes"};
  return bits / 8;
}

void widen_to_float(DType dtype, std::span<const std::byte> tensor, std::uint64_t begin,
                    std::span<float> out) {
  const std::uint64_t bits = dtype_bits(dtype);
  const std::uint64_t held = tensor.size() / bits * 8 + tensor.size() % bits * 8 / bits;
  if (begin > held || out.size() > held - begin)
    throw Error("cannot widen elements " + std::to_string(begin) + " to " +
                std::to_string(begin + out.size()) + " of a tensor that holds " + std::to_string(held) +
                " of " + std::string(dtype_name(dtype)));
  if (out.empty()) return;
  switch (dtype) {
    case DType::kBool:
      return widen<std::uint8_t>(tensor, begin, out, [](std::uint8_t v) { return v != 0 ? 1.0f : 0.0f; });
    case DType::kF4:
      return widen_packed(tensor, begin, out, 4, kF4Table);
    case DType::kF6E2M3:
      return widen_packed(tensor, begin, out, 6, kF6E2M3Table);
    case DType::kF6E3M2:
      return widen_packed(tensor, begin, out, 6, kF6E3M2Table);
    case DType::kU8:
      return widen_number<std::uint8_t>(tensor, begin, out);
    case DType::kI8:
      return widen_number<std::int8_t>(tensor, begin, out);
    case DType::kF8E5M2:
      return widen_codes(tensor, begin, out, kF8E5M2Table);
    case DType::kF8E4M3:
      return widen_codes(tensor, begin, out, kF8E4M3Table);
    case DType::kF8E8M0:
      return widen_codes(tensor, begin, out, kF8E8M0Table);
    case DType::kF8E4M3Fnuz:
      return widen_codes(tensor, begin, out, kF8E4M3FnuzTable);
    case DType::kF8E5M2Fnuz:
      return widen_codes(tensor, begin, out, kF8E5M2FnuzTable);
    case DType::kI16:
      return widen_number<std::int16_t>(tensor, begin, out);
    case DType::kU16:
      return widen_number<std::uint16_t>(tensor, begin, out);
    case DType::kF16:
      return widen<std::uint16_t>(tensor, begin, out, f16_to_float);
    case DType::kBF16:
      return widen<std::uint16_t>(tensor, begin, out, bf16_to_float);
    case DType::kI32:
      return widen_number<std::int32_t>(tensor, begin, out);
    case DType::kU32:
      return widen_number<std::uint32_t>(tensor, begin, out);
    case DType::kF32:
      std::memcpy(out.data(), tensor.data() + begin * 4, out.size_bytes());
      return;
    case DType::kC64:
      throw Error("cannot widen complex numbers (C64) to float32");
    case DType::kF64:
      return widen_number<double>(tensor, begin, out);
    case DType::kI64:
      return widen_number<std::int64_t>(tensor, begin, out);
    case DType::kU64:
      return widen_number<std::uint64_t>(tensor, begin, out);
  }
}

}  // namespace crumb
