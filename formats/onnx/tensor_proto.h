// One TensorProto of an ONNX file: what its fields say, and where that puts its elements.
//
// The data stand in one of several fields, by type (onnx.proto3): raw_data (any type, little-endian),
// float_data (FLOAT, COMPLEX64), double_data (DOUBLE), int64_data (INT64), uint64_data (UINT32, UINT64),
// int32_data (all the other types, floats of 16 and 8 bits by their bits, two FLOAT4E2M1 a number), or
// outside: data_location 1 and external_data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/onnx/external_data.h"
#include "formats/onnx/wire.h"
#include "formats/stored_tensor.h"

namespace crumb {

inline constexpr std::size_t kOnnxMostAxes = 64;
inline constexpr std::uint64_t kOnnxLongestText = 65536;  ///< of a name or a location

/// A data field of a TensorProto. Numbers may come as packed runs or one by one; `pieces` counts the fields
/// that hold any, `extent` is the last of them.
struct OnnxRun {
  std::uint64_t pieces = 0;
  WireExtent extent;
};

enum class OnnxData : std::uint8_t { kRaw, kFloat, kInt32, kInt64, kDouble, kUint64 };
inline constexpr std::array<std::string_view, 6> kOnnxDataNames = {
    "raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"};

struct OnnxTensor {
  std::string_view name;  ///< in the file
  std::int32_t data_type = 0;
  std::vector<std::uint64_t> dims;
  std::array<OnnxRun, kOnnxDataNames.size()> data;
  std::vector<WireExtent> external;  ///< the entries of external_data
  bool is_external = false;
  bool is_segment = false;

  const OnnxRun& run(OnnxData field) const { return data[static_cast<std::size_t>(field)]; }
};

/// A Failure on damage, negative sizes, more than kOnnxMostAxes axes and names that are too long or not
/// UTF-8.
Result<OnnxTensor> parse_onnx_tensor(std::span<const std::byte> file, const WireExtent& message);

/// "float4e2m1", "string"; nothing for numbers that the format does not know.
std::optional<std::string_view> onnx_type_name(std::int32_t data_type);

/// Where the elements of a named tensor lie. Nothing where its type is none of ours; a Failure where its data
/// do not fit its type and shape, lie in several pieces (legal, but no writer does that) or at a path that
/// is not inside the model's folder.
Result<std::optional<StoredTensor>> place_onnx_tensor(std::span<const std::byte> file,
                                                      const OnnxTensor& tensor);

/// The numbers of a data field other than raw_data, the `bytes_each` low bytes of each (four or eight of a
/// float or double): packed runs and single numbers in their order. A Failure, the end of a sentence about
/// the tensor, on damage and where there are not `count` of them.
Result<std::vector<std::byte>> read_onnx_numbers(std::span<const std::byte> file, const WireExtent& message,
                                                 OnnxData field, std::size_t bytes_each, std::uint64_t count);

/// The entries of a tensor's external_data.
Result<std::vector<OnnxExternalEntry>> external_entries(std::span<const std::byte> file,
                                                        const OnnxTensor& tensor);

}  // namespace crumb
