#include "formats/dtype.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/checked_size.h"
#include "base/processor.h"
#include "formats/half.h"
#include "formats/number/number_format.h"

namespace crumb {
namespace {

static_assert(std::endian::native == std::endian::little, "stored tensors are read in place");

constexpr bool table_is_in_order() {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].dtype != static_cast<DType>(i)) return false;
  return true;
}
static_assert(table_is_in_order());

/// The values of a small float's codes.
const std::array<float, 256>& code_values(DType dtype) {
  static const auto kTables = [] {
    std::array<std::array<float, 256>, kDTypes.size()> tables{};
    for (const DTypeInfo& info : kDTypes)
      if (!info.number_format.empty())
        tables[static_cast<std::size_t>(info.dtype)] = value_table(*find_number_format(info.number_format));
    return tables;
  }();
  return kTables[static_cast<std::size_t>(dtype)];
}

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

void widen_halves(std::span<const std::byte> tensor, std::uint64_t begin, std::span<float> out) {
  widen<std::uint16_t>(tensor, begin, out, [](std::uint16_t bits16) { return f16_to_float(bits16); });
}

#if defined(__x86_64__)
/// Eight at a time by one instruction, but where there are infinities or NaN, whose bits it may change.
__attribute__((target("avx2,f16c"))) void widen_halves_avx2(std::span<const std::byte> tensor,
                                                            std::uint64_t begin, std::span<float> out) {
  constexpr std::size_t kWide = 8;
  const std::byte* source = tensor.data() + begin * sizeof(std::uint16_t);
  const __m128i exponent = _mm_set1_epi16(0x7C00);
  std::size_t i = 0;
  for (; i + kWide <= out.size(); i += kWide) {
    const __m128i halves =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i * sizeof(std::uint16_t)));
    const __m128i special = _mm_cmpeq_epi16(_mm_and_si128(halves, exponent), exponent);
    if (_mm_movemask_epi8(special) != 0) {
      widen_halves(tensor, begin + i, out.subspan(i, kWide));
    } else {
      _mm256_storeu_ps(&out[i], _mm256_cvtph_ps(halves));
    }
  }
  widen_halves(tensor, begin + i, out.subspan(i));
}
#endif

/// Rounded to nearest even; a NaN keeps its sign and the upper 22 bits below the quiet bit, which is set,
/// whatever the processor does.
float narrowed(double value) {
  if (!std::isnan(value)) return static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 32) & 0x80000000u;
  return std::bit_cast<float>(sign | 0x7fc00000u | (static_cast<std::uint32_t>(bits >> 29) & 0x3fffffu));
}

/// Codes of 4 or 6 bits, least significant bit first; a code may straddle two bytes.
void widen_packed(std::span<const std::byte> tensor, std::uint64_t begin, std::span<float> out, unsigned bits,
                  const std::array<float, 256>& table) {
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
  checked::Size count = 1;
  bool empty = false;
  for (const std::uint64_t size : shape) {
    if (size == 0)
      empty = true;
    else
      count = checked::multiply(count, size);
  }
  if (!count) return Failure{"the shape " + shape_text(shape) + " has more elements than 64 bits can count"};
  return empty ? 0 : *count;
}

Result<std::uint64_t> tensor_byte_size(DType dtype, std::span<const std::uint64_t> shape) {
  const Result<std::uint64_t> count = element_count(shape);
  if (!count.ok()) return count;
  const checked::Size bits = checked::multiply(count.value(), dtype_bits(dtype));
  if (!bits)
    return Failure{"the shape " + shape_text(shape) + " of " + std::string(dtype_name(dtype)) +
                   " has more bits than 64 bits can count"};
  if (*bits % 8 != 0)
    return Failure{"the shape " + shape_text(shape) + " of " + std::string(dtype_name(dtype)) + " comes to " +
                   std::to_string(*bits) + " bits, which is not a whole number of bytes"};
  return *bits / 8;
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
      return widen<std::uint8_t>(tensor, begin, out, [](std::uint8_t v) { return v != 0 ? 1.0F : 0.0F; });
    case DType::kF4:
    case DType::kF6E2M3:
    case DType::kF6E3M2: return widen_packed(tensor, begin, out, dtype_bits(dtype), code_values(dtype));
    case DType::kU8: return widen_number<std::uint8_t>(tensor, begin, out);
    case DType::kI8: return widen_number<std::int8_t>(tensor, begin, out);
    case DType::kF8E5M2:
    case DType::kF8E4M3:
    case DType::kF8E8M0:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2Fnuz:
      return widen<std::uint8_t>(tensor, begin, out,
                                 [&table = code_values(dtype)](std::uint8_t code) { return table[code]; });
    case DType::kI16: return widen_number<std::int16_t>(tensor, begin, out);
    case DType::kU16: return widen_number<std::uint16_t>(tensor, begin, out);
    case DType::kF16:
#if defined(__x86_64__)
      if (may_use(Isa::kAvx2)) return widen_halves_avx2(tensor, begin, out);
#endif
      return widen_halves(tensor, begin, out);
    case DType::kBF16:
      return widen<std::uint16_t>(tensor, begin, out,
                                  [](std::uint16_t bits16) { return bf16_to_float(bits16); });
    case DType::kI32: return widen_number<std::int32_t>(tensor, begin, out);
    case DType::kU32: return widen_number<std::uint32_t>(tensor, begin, out);
    case DType::kF32: std::memcpy(out.data(), tensor.data() + begin * 4, out.size_bytes()); return;
    case DType::kC64: throw Error("cannot widen complex numbers (C64) to float32");
    case DType::kF64: return widen<double>(tensor, begin, out, narrowed);
    case DType::kI64: return widen_number<std::int64_t>(tensor, begin, out);
    case DType::kU64: return widen_number<std::uint64_t>(tensor, begin, out);
  }
}

}  // namespace crumb
