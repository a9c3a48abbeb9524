// The element types of stored tensors: the whole list of the safetensors format, in the order of its
// reference writer (smallest alignment first), which fixes the order of tensors in the files that we write.
//
// Everything is little-endian. Types below one byte are packed without gaps, least significant bit first, so
// a tensor of them must come to whole bytes. Their values: F4 is OCP e2m1, F6_E2M3 and F6_E3M2 the OCP types
// of that name, F8_E5M2 and F8_E4M3 the OCP types (the latter is e4m3fn: no infinity, one NaN per sign),
// F8_E8M0 a power of two (2^(code - 127), 255 is NaN), the FNUZ types have one zero, one NaN (code 128) and a
// bias one higher. C64 is a pair of F32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace crumb {

enum class DType : std::uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;   ///< as safetensors spells it
  unsigned bits;           ///< of one element
  bool is_floating;        ///< real floating point (C64 is not)
  bool widening_rounds;    ///< not every value is a float32
  std::string_view numpy;  ///< numpy's kind and size ("f4"), empty where numpy has no such type
  std::string_view number_format =
      {};  ///< the row of number_formats() that its codes follow, for small floats
};

inline constexpr std::array<DTypeInfo, 22> kDTypes = {{
    {DType::kBool, "BOOL", 8, false, false, "b1"},
    {DType::kF4, "F4", 4, true, false, "", "e2m1"},
    {DType::kF6E2M3, "F6_E2M3", 6, true, false, "", "e2m3"},
    {DType::kF6E3M2, "F6_E3M2", 6, true, false, "", "e3m2"},
    {DType::kU8, "U8", 8, false, false, "u1"},
    {DType::kI8, "I8", 8, false, false, "i1"},
    {DType::kF8E5M2, "F8_E5M2", 8, true, false, "", "e5m2"},
    {DType::kF8E4M3, "F8_E4M3", 8, true, false, "", "e4m3fn"},
    {DType::kF8E8M0, "F8_E8M0", 8, true, false, "", "e8m0"},
    {DType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8, true, false, "", "e4m3fnuz"},
    {DType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8, true, false, "", "e5m2fnuz"},
    {DType::kI16, "I16", 16, false, false, "i2"},
    {DType::kU16, "U16", 16, false, false, "u2"},
    {DType::kF16, "F16", 16, true, false, "f2"},
    {DType::kBF16, "BF16", 16, true, false, ""},
    {DType::kI32, "I32", 32, false, true, "i4"},
    {DType::kU32, "U32", 32, false, true, "u4"},
    {DType::kF32, "F32", 32, true, false, "f4"},
    {DType::kC64, "C64", 64, false, true, "c8"},
    {DType::kF64, "F64", 64, true, true, "f8"},
    {DType::kI64, "I64", 64, false, true, "i8"},
    {DType::kU64, "U64", 64, false, true, "u8"},
}};

constexpr const DTypeInfo& dtype_info(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }
constexpr std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
constexpr unsigned dtype_bits(DType dtype) { return dtype_info(dtype).bits; }
constexpr bool is_floating(DType dtype) { return dtype_info(dtype).is_floating; }

/// True where widen_to_float rounds some values (F64, and integers of 32 bits and more).
constexpr bool widening_rounds(DType dtype) { return dtype_info(dtype).widening_rounds; }

/// Exact spelling, as in kDTypes.
std::optional<DType> dtype_from_name(std::string_view name);

/// The product of a shape's sizes (1 for rank 0). A Failure where the product of the sizes other than zero
/// does not fit 64 bits, so that every partial product of an accepted shape fits too.
Result<std::uint64_t> element_count(std::span<const std::uint64_t> shape);

/// Bytes of a tensor. A Failure on overflow (of the size in bits) and where sub-byte elements do not come to
/// whole bytes.
Result<std::uint64_t> tensor_byte_size(DType dtype, std::span<const std::uint64_t> shape);

/// "[2, 3]", for messages; at most eight sizes, then an ellipsis.
std::string shape_text(std::span<const std::uint64_t> shape);

/// Decodes elements [begin, begin + out.size()) of a tensor whose bytes are `tensor` into float32. Exact
/// except where widening_rounds(dtype), which rounds to nearest even (F64 beyond float32's range becomes
/// infinity). NaN stays NaN, infinity stays infinity, BOOL is 0 or 1. Any begin is good, for sub-byte types
/// too. Throws crumb::Error for C64 and where the range leaves the tensor.
void widen_to_float(DType dtype, std::span<const std::byte> tensor, std::uint64_t begin,
                    std::span<float> out);

/// Decodes the first out.size() elements of the tensor.
inline void widen_to_float(DType dtype, std::span<const std::byte> tensor, std::span<float> out) {
  widen_to_float(dtype, tensor, 0, out);
}

}  // namespace crumb
