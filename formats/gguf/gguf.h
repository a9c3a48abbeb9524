// Reads GGUF, the model file of llama.cpp: headers only; the tensors' data stay in the file.
//
// Layout, all of it little-endian: the bytes "GGUF", u32 version (2 or 3, which differ in nothing but that 3
// may be big-endian), u64 number of tensors, u64 number of metadata entries; the entries; the tensors;
// padding to a multiple of the alignment; data, to the end of the file.
//   text     u64 length, so many bytes of UTF-8
//   entry    text key, u32 value type, value
//   value    type 0 u8, 1 i8, 2 u16, 3 i16, 4 u32, 5 i32, 6 f32, 7 bool (a byte, 0 or 1), 8 text, 10 u64, 11
//            i64, 12 f64; 9 array: u32 element type, u64 count, so many values of that type (arrays too)
//   tensor   text name, u32 number of sizes (at most 4), so many u64 sizes, innermost axis first, u32 type
//            (ggml_type.h), u64 offset from the start of the data, a multiple of the alignment
// The alignment is the u32 entry "general.alignment", a power of two, 32 where it is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/gguf/ggml_type.h"

namespace crumb {

enum class GgufValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kText = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// "u32", "text", "array", ...
std::string_view gguf_value_type_name(GgufValueType type);

/// A value in the file: views into the file's bytes.
struct GgufValue {
  GgufValueType type = GgufValueType::kU8;
  std::span<const std::byte> bytes;  ///< the characters of a text, the elements of an array, else the number

  // For arrays:
  GgufValueType element = GgufValueType::kU8;
  std::uint64_t count = 0;
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

struct GgufTensor {
  std::string name;
  const GgmlType* type = nullptr;    ///< a row of ggml_types()
  std::vector<std::uint64_t> shape;  ///< outermost axis first: the file's sizes, reversed
  std::uint64_t offset = 0;          ///< of its first byte, from the start of the file
  std::uint64_t bytes = 0;
  std::size_t part = 0;  ///< the file that it lies in, of a model in several (split.h)
};

/// A file's header. Its views live as long as the bytes that were parsed.
struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::uint64_t data_offset = 0;
  std::vector<GgufEntry> metadata;  ///< sorted by key
  std::vector<GgufTensor> tensors;  ///< in the file's order

  /// Null where there is no such key.
  const GgufValue* find(std::string_view key) const;
};

inline constexpr std::uint64_t kGgufMostEntries = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kGgufMostTensors = std::uint64_t{1} << 17;
inline constexpr std::uint64_t kGgufLongestName = 4096;  ///< of keys and tensors
inline constexpr unsigned kGgufDeepestArray = 4;         ///< arrays inside each other

/// Whether a file that begins with these bytes is GGUF of some version and byte order.
bool looks_like_gguf(std::span<const std::byte> start);

/// Checks a whole file's header: every length and count against what the file holds, keys and tensor names
/// unique and UTF-8, types known, sizes whole blocks, data inside the file and apart from each other. A
/// Failure says what was found, what was expected and where; big-endian files and other versions are refused
/// by name. A tensor whose type Crumb cannot decode is listed. Time is linear in the header's bytes, memory
/// does not grow with arrays.
Result<GgufHeader> parse_gguf(std::span<const std::byte> file);

/// The size of a tensor's data in bytes. A Failure, which ends a sentence about the tensor, where a row is
/// not whole blocks or the size overflows.
Result<std::uint64_t> gguf_tensor_bytes(const GgmlType& type, std::span<const std::uint64_t> shape);

// Values as numbers and texts. Each is a Failure, which names the key's type and what was expected, where the
// value is of another kind or does not fit.

/// Any integer type (not bool) that holds a natural number.
Result<std::uint64_t> gguf_natural(const GgufValue& value);

/// A float, or an integer, which becomes the nearest double.
Result<double> gguf_number(const GgufValue& value);

Result<bool> gguf_bool(const GgufValue& value);

/// Well-formed UTF-8.
Result<std::string_view> gguf_text(const GgufValue& value);

/// Passes the elements of an array to `sink` in order, as views into the file. A Failure of the sink ends it
/// and is returned. A Failure where the value is no array of `element`.
Status gguf_for_each(const GgufValue& array, GgufValueType element,
                     const std::function<Status(const GgufValue&)>& sink);

}  // namespace crumb
