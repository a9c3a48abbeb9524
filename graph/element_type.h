// The element types of a graph's tensors: those of ONNX (TensorProto.DataType), one row each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "formats/dtype.h"

namespace crumb::graph {

enum class ElementType : std::uint8_t {
  kUnknown,
  kFloat,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kInt32,
  kInt64,
  kString,
  kBool,
  kFloat16,
  kDouble,
  kUint32,
  kUint64,
  kComplex64,
  kComplex128,
  kBfloat16,
  kFloat8E4M3fn,
  kFloat8E4M3fnuz,
  kFloat8E5M2,
  kFloat8E5M2fnuz,
  kUint4,
  kInt4,
  kFloat4E2M1,
  kFloat8E8M0,
  kUint2,
  kInt2,
};

enum class ElementKind : std::uint8_t { kNone, kBool, kSigned, kUnsigned, kFloat, kComplex };

struct ElementTypeInfo {
  ElementType type;
  std::string_view name;  ///< ONNX's name in lower case
  unsigned bits;          ///< of one element as stored; 0: not defined
  ElementKind kind;
  std::optional<DType> dtype;  ///< the same type in checkpoints
};

/// One row for each enumerator, in their order; enumerators have ONNX's own numbers.
inline constexpr std::array<ElementTypeInfo, 27> kElementTypes = {{
    {ElementType::kUnknown, "unknown", 0, ElementKind::kNone, {}},
    {ElementType::kFloat, "float", 32, ElementKind::kFloat, DType::kF32},
    {ElementType::kUint8, "uint8", 8, ElementKind::kUnsigned, DType::kU8},
    {ElementType::kInt8, "int8", 8, ElementKind::kSigned, DType::kI8},
    {ElementType::kUint16, "uint16", 16, ElementKind::kUnsigned, DType::kU16},
    {ElementType::kInt16, "int16", 16, ElementKind::kSigned, DType::kI16},
    {ElementType::kInt32, "int32", 32, ElementKind::kSigned, DType::kI32},
    {ElementType::kInt64, "int64", 64, ElementKind::kSigned, DType::kI64},
    {ElementType::kString, "string", 0, ElementKind::kNone, {}},
    {ElementType::kBool, "bool", 8, ElementKind::kBool, DType::kBool},
    {ElementType::kFloat16, "float16", 16, ElementKind::kFloat, DType::kF16},
    {ElementType::kDouble, "double", 64, ElementKind::kFloat, DType::kF64},
    {ElementType::kUint32, "uint32", 32, ElementKind::kUnsigned, DType::kU32},
    {ElementType::kUint64, "uint64", 64, ElementKind::kUnsigned, DType::kU64},
    {ElementType::kComplex64, "complex64", 64, ElementKind::kComplex, DType::kC64},
    {ElementType::kComplex128, "complex128", 128, ElementKind::kComplex, {}},
    {ElementType::kBfloat16, "bfloat16", 16, ElementKind::kFloat, DType::kBF16},
    {ElementType::kFloat8E4M3fn, "float8e4m3fn", 8, ElementKind::kFloat, DType::kF8E4M3},
    {ElementType::kFloat8E4M3fnuz, "float8e4m3fnuz", 8, ElementKind::kFloat, DType::kF8E4M3Fnuz},
    {ElementType::kFloat8E5M2, "float8e5m2", 8, ElementKind::kFloat, DType::kF8E5M2},
    {ElementType::kFloat8E5M2fnuz, "float8e5m2fnuz", 8, ElementKind::kFloat, DType::kF8E5M2Fnuz},
    {ElementType::kUint4, "uint4", 4, ElementKind::kUnsigned, {}},
    {ElementType::kInt4, "int4", 4, ElementKind::kSigned, {}},
    {ElementType::kFloat4E2M1, "float4e2m1", 4, ElementKind::kFloat, DType::kF4},
    {ElementType::kFloat8E8M0, "float8e8m0", 8, ElementKind::kFloat, DType::kF8E8M0},
    {ElementType::kUint2, "uint2", 2, ElementKind::kUnsigned, {}},
    {ElementType::kInt2, "int2", 2, ElementKind::kSigned, {}},
}};

constexpr const ElementTypeInfo& info(ElementType type) {
  return kElementTypes[static_cast<std::size_t>(type)];
}
constexpr std::string_view name_of(ElementType type) { return info(type).name; }
constexpr bool is_float(ElementType type) { return info(type).kind == ElementKind::kFloat; }
constexpr bool is_integer(ElementType type) {
  return info(type).kind == ElementKind::kSigned || info(type).kind == ElementKind::kUnsigned;
}

/// Returns ONNX's number of a type, or the type of a number; nothing for numbers that ONNX does not define.
constexpr int onnx_number(ElementType type) { return static_cast<int>(type); }
constexpr std::optional<ElementType> element_type_of(std::int64_t onnx_number) {
  if (onnx_number < 1 || onnx_number >= static_cast<std::int64_t>(kElementTypes.size())) return {};
  return static_cast<ElementType>(onnx_number);
}

/// Returns the element type of a checkpoint's dtype; nothing where ONNX has none.
constexpr std::optional<ElementType> element_type_of(DType dtype) {
  for (const ElementTypeInfo& row : kElementTypes) {
    if (row.dtype == dtype) return row.type;
  }
  return {};
}

}  // namespace crumb::graph
