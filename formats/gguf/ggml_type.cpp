#include "formats/gguf/ggml_type.h"

#include <algorithm>
#include <array>

#include "formats/gguf/blocks.h"

namespace crumb {
namespace {

constexpr GgmlType number(std::uint32_t id, std::string_view name, DType dtype) {
  return {id, name, 1, dtype_bits(dtype) / 8, dtype, nullptr};
}

constexpr GgmlType blocks(std::uint32_t id, std::string_view name, unsigned elements, unsigned bytes,
                          GgmlDecode decode) {
  return {id, name, elements, bytes, std::nullopt, decode};
}

/// Known, and not decoded.
constexpr GgmlType refused(std::uint32_t id, std::string_view name, unsigned elements, unsigned bytes) {
  return {id, name, elements, bytes, std::nullopt, nullptr};
}

constexpr std::array<GgmlType, 35> kTypes = {{
    number(0, "F32", DType::kF32),
    number(1, "F16", DType::kF16),
    blocks(2, "Q4_0", 32, 18, ggml::decode_q4_0),
    blocks(3, "Q4_1", 32, 20, ggml::decode_q4_1),
    blocks(6, "Q5_0", 32, 22, ggml::decode_q5_0),
    blocks(7, "Q5_1", 32, 24, ggml::decode_q5_1),
    blocks(8, "Q8_0", 32, 34, ggml::decode_q8_0),
    refused(9, "Q8_1", 32, 40),
    blocks(10, "Q2_K", 256, 84, ggml::decode_q2_k),
    blocks(11, "Q3_K", 256, 110, ggml::decode_q3_k),
    blocks(12, "Q4_K", 256, 144, ggml::decode_q4_k),
    blocks(13, "Q5_K", 256, 176, ggml::decode_q5_k),
    blocks(14, "Q6_K", 256, 210, ggml::decode_q6_k),
    refused(15, "Q8_K", 256, 292),
    refused(16, "IQ2_XXS", 256, 66),
    refused(17, "IQ2_XS", 256, 74),
    refused(18, "IQ3_XXS", 256, 98),
    refused(19, "IQ1_S", 256, 50),
    blocks(20, "IQ4_NL", 32, 18, ggml::decode_iq4_nl),
    refused(21, "IQ3_S", 256, 110),
    refused(22, "IQ2_S", 256, 82),
    blocks(23, "IQ4_XS", 256, 136, ggml::decode_iq4_xs),
    number(24, "I8", DType::kI8),
    number(25, "I16", DType::kI16),
    number(26, "I32", DType::kI32),
    number(27, "I64", DType::kI64),
    number(28, "F64", DType::kF64),
    refused(29, "IQ1_M", 256, 56),
    number(30, "BF16", DType::kBF16),
    blocks(34, "TQ1_0", 256, 54, ggml::decode_tq1_0),
    blocks(35, "TQ2_0", 256, 66, ggml::decode_tq2_0),
    blocks(39, "MXFP4", 32, 17, ggml::decode_mxfp4),
    blocks(40, "NVFP4", 64, 36, ggml::decode_nvfp4),
    blocks(41, "Q1_0", 128, 18, ggml::decode_q1_0),
    blocks(42, "Q2_0", 64, 18, ggml::decode_q2_0),
}};

static_assert(std::ranges::is_sorted(kTypes, {}, &GgmlType::number));
static_assert(std::ranges::all_of(kTypes, [](const GgmlType& type) {
  return type.block_elements <= ggml::kLarge && !(type.plain && type.decode);
}));

}  // namespace

void decode_ggml(const GgmlType& type, std::span<const std::byte> blocks, std::uint64_t begin,
                 std::span<float> out, float scale) {
  if (type.plain) return widen_to_float(*type.plain, blocks, begin, out);
  std::array<float, ggml::kLarge> values;
  const std::byte* block = blocks.data() + begin / type.block_elements * type.block_bytes;
  std::size_t from = begin % type.block_elements;
  for (std::size_t at = 0; at < out.size(); from = 0, block += type.block_bytes) {
    if (scale == 1)
      type.decode(block, values.data());
    else
      ggml::decode_scaled_nvfp4(block, scale, values.data());
    const std::size_t count = std::min<std::size_t>(type.block_elements - from, out.size() - at);
    std::copy_n(values.data() + from, count, out.data() + at);
    at += count;
  }
}

std::span<const GgmlType> ggml_types() { return kTypes; }

const GgmlType* find_ggml_type(std::uint32_t number) {
  const auto found = std::ranges::find(kTypes, number, &GgmlType::number);
  return found == kTypes.end() ? nullptr : &*found;
}

}  // namespace crumb
