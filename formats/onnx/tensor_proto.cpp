#include "formats/onnx/tensor_proto.h"

#include <algorithm>
#include <utility>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/onnx/external_data.h"

namespace crumb {
namespace {

struct OnnxType {
  std::string_view name;
  std::optional<DType> dtype;
  OnnxData field = OnnxData::kInt32;  ///< beside raw_data
};

/// By TensorProto.DataType.
constexpr std::array<OnnxType, 27> kTypes = {{
    {"undefined", {}, OnnxData::kRaw},
    {"float", DType::kF32, OnnxData::kFloat},
    {"uint8", DType::kU8},
    {"int8", DType::kI8},
    {"uint16", DType::kU16},
    {"int16", DType::kI16},
    {"int32", DType::kI32},
    {"int64", DType::kI64, OnnxData::kInt64},
    {"string", {}},
    {"bool", DType::kBool},
    {"float16", DType::kF16},
    {"double", DType::kF64, OnnxData::kDouble},
    {"uint32", DType::kU32, OnnxData::kUint64},
    {"uint64", DType::kU64, OnnxData::kUint64},
    {"complex64", DType::kC64, OnnxData::kFloat},
    {"complex128", {}, OnnxData::kDouble},
    {"bfloat16", DType::kBF16},
    {"float8e4m3fn", DType::kF8E4M3},
    {"float8e4m3fnuz", DType::kF8E4M3Fnuz},
    {"float8e5m2", DType::kF8E5M2},
    {"float8e5m2fnuz", DType::kF8E5M2Fnuz},
    {"uint4", {}},
    {"int4", {}},
    {"float4e2m1", DType::kF4},
    {"float8e8m0", DType::kF8E8M0},
    {"uint2", {}},
    {"int2", {}},
}};

/// The data field of a number in TensorProto, and how its numbers are written one by one.
struct DataField {
  OnnxData data;
  WireType single;
};

std::optional<DataField> data_field(std::uint32_t number) {
  switch (number) {
    case 4: return DataField{OnnxData::kFloat, WireType::kFixed32};
    case 5: return DataField{OnnxData::kInt32, WireType::kVarint};
    case 7: return DataField{OnnxData::kInt64, WireType::kVarint};
    case 9: return DataField{OnnxData::kRaw, WireType::kBytes};
    case 10: return DataField{OnnxData::kDouble, WireType::kFixed64};
    case 11: return DataField{OnnxData::kUint64, WireType::kVarint};
    default: return std::nullopt;
  }
}

Status add_dim(std::vector<std::uint64_t>& dims, std::uint64_t size) {
  if (size > static_cast<std::uint64_t>(INT64_MAX))
    return Failure{"its shape holds the size " + std::to_string(static_cast<std::int64_t>(size))};
  if (dims.size() == kOnnxMostAxes)
    return Failure{"it has more than " + std::to_string(kOnnxMostAxes) + " axes"};
  dims.push_back(size);
  return {};
}

/// A shape's sizes, one by one or packed.
Status add_dims(std::span<const std::byte> file, const WireField& field, std::vector<std::uint64_t>& dims) {
  if (field.type == WireType::kVarint) return add_dim(dims, field.varint);
  std::uint64_t next = field.payload.begin;
  const std::uint64_t end = next + field.payload.size;
  while (next < end) {
    std::uint64_t size = 0;
    if (!read_wire_varint(file, next, end, size)) return Failure{"its shape is damaged"};
    if (Status added = add_dim(dims, size); !added.ok()) return added;
  }
  return {};
}

Failure misfit(const OnnxTensor& tensor, const std::string& why) {
  return Failure{"initializer " + quote_text(tensor.name) + " (" +
                 std::string(onnx_type_name(tensor.data_type).value_or("?")) + " " + shape_text(tensor.dims) +
                 "): " + why};
}

Result<std::optional<StoredTensor>> place_external(std::span<const std::byte> file, const OnnxTensor& tensor,
                                                   StoredTensor stored) {
  const Result<std::vector<OnnxExternalEntry>> entries = external_entries(file, tensor);
  if (!entries.ok()) return misfit(tensor, entries.failure().message);
  TensorPlace& place = stored.place;
  Result<OnnxExternalPlace> external = place_onnx_external(entries.value(), place.decoded);
  if (!external.ok()) return misfit(tensor, external.failure().message);
  place.offset = external.value().offset;
  place.stored = place.decoded;
  stored.file = std::move(external.value().path);
  return std::optional(std::move(stored));
}

/// What can be told of a run of varints without reading it: how many there may be, and that the last one
/// ends.
Status check_varints(std::span<const std::byte> file, const OnnxTensor& tensor, const WireExtent& run,
                     std::uint64_t numbers) {
  if (run.size < numbers || (run.size + 9) / 10 > numbers)
    return misfit(tensor, "its data take " + byte_text(run.size) + ", which cannot be " +
                              count_text(numbers, "number"));
  if (run.size > 0 && std::to_integer<unsigned>(file[run.begin + run.size - 1]) >= 128)
    return misfit(tensor, "its data end inside a number");
  return {};
}

}  // namespace

Result<OnnxTensor> parse_onnx_tensor(std::span<const std::byte> file, const WireExtent& message) {
  OnnxTensor tensor;
  Status dims;  // told once the name is known
  WireReader reader(file, message);
  for (WireField field; reader.next(field);) {
    if (field.is(1) || field.is(1, WireType::kVarint)) {
      if (dims.ok()) dims = add_dims(file, field, tensor.dims);
    } else if (field.is(2, WireType::kVarint)) {
      tensor.data_type = static_cast<std::int32_t>(field.varint);
    } else if (field.is(3)) {
      tensor.is_segment = true;
    } else if (field.is(8)) {
      tensor.name = wire_text(file, field.payload);
    } else if (field.is(13)) {
      tensor.external.push_back(field.payload);
    } else if (field.is(14, WireType::kVarint)) {
      tensor.is_external = field.varint == 1;
    } else if (const std::optional<DataField> data = data_field(field.number);
               data && (field.type == WireType::kBytes || field.type == data->single)) {
      OnnxRun& run = tensor.data[static_cast<std::size_t>(data->data)];
      if (data->data == OnnxData::kRaw) run.pieces = 0;  // not repeated: the last one counts
      if (field.payload.size > 0) run = {run.pieces + 1, field.payload};
    }
  }
  if (!reader.status().ok()) return reader.status().failure();
  const std::string at_byte = " (tensor at byte " + std::to_string(message.begin) + ")";
  if (tensor.name.size() > kOnnxLongestText || !is_utf8(tensor.name))
    return Failure{
        "the name " + quote_text(tensor.name) + " is " +
        (tensor.name.size() > kOnnxLongestText ? "longer than " + byte_text(kOnnxLongestText) : "not UTF-8") +
        at_byte};
  if (!dims.ok())
    return Failure{"tensor " + quote_text(tensor.name) + ": " + dims.failure().message + at_byte};
  return tensor;
}

std::optional<std::string_view> onnx_type_name(std::int32_t data_type) {
  if (data_type < 0 || static_cast<std::size_t>(data_type) >= kTypes.size()) return std::nullopt;
  return kTypes[static_cast<std::size_t>(data_type)].name;
}

Result<std::optional<StoredTensor>> place_onnx_tensor(std::span<const std::byte> file,
                                                      const OnnxTensor& tensor) {
  if (tensor.data_type == 0) return misfit(tensor, "it has no data type");
  if (tensor.is_segment) return misfit(tensor, "it is a segment of a tensor, expected a whole one");
  if (!onnx_type_name(tensor.data_type)) return std::optional<StoredTensor>{};
  const OnnxType& type = kTypes[static_cast<std::size_t>(tensor.data_type)];
  if (!type.dtype) return std::optional<StoredTensor>{};

  const Result<std::uint64_t> count = element_count(tensor.dims);
  if (!count.ok()) return misfit(tensor, count.failure().message);
  if (type.dtype == DType::kF4 && count.value() % 2 != 0) return std::optional<StoredTensor>{};
  const Result<std::uint64_t> bytes = tensor_byte_size(*type.dtype, tensor.dims);
  if (!bytes.ok()) return misfit(tensor, bytes.failure().message);

  StoredTensor stored;
  stored.name = tensor.name;
  stored.dtype = *type.dtype;
  stored.shape = tensor.dims;
  TensorPlace& place = stored.place;
  place.decoded = bytes.value();
  if (tensor.is_external) return place_external(file, tensor, std::move(stored));

  std::optional<OnnxData> found;
  for (std::size_t i = 0; i < kOnnxDataNames.size(); ++i) {
    if (tensor.data[i].pieces == 0) continue;
    if (found)
      return misfit(tensor, "its data are there twice, as " +
                                std::string(kOnnxDataNames[static_cast<std::size_t>(*found)]) + " and as " +
                                std::string(kOnnxDataNames[i]));
    found = static_cast<OnnxData>(i);
  }
  if (!found) {
    if (place.decoded == 0) return std::optional(std::move(stored));
    return misfit(tensor, "it has no data, expected " + byte_text(place.decoded));
  }
  const std::string field(kOnnxDataNames[static_cast<std::size_t>(*found)]);
  if (*found != OnnxData::kRaw && *found != type.field)
    return misfit(tensor, "its data are " + field + ", expected raw_data or " +
                              std::string(kOnnxDataNames[static_cast<std::size_t>(type.field)]));
  const OnnxRun& run = tensor.run(*found);
  if (run.pieces > 1)
    return misfit(tensor, "its " + field + " lies in " + std::to_string(run.pieces) +
                              " pieces, expected one packed run; save the model again with a current ONNX");
  place.offset = run.extent.begin;
  place.stored = run.extent.size;
  if (*found == OnnxData::kInt32 || *found == OnnxData::kInt64 || *found == OnnxData::kUint64) {
    place.coding = StorageCoding::kVarints;
    const std::uint64_t numbers = type.dtype == DType::kF4 ? count.value() / 2 : count.value();
    if (const Status fits = check_varints(file, tensor, run.extent, numbers); !fits.ok())
      return fits.failure();
  } else if (place.stored != place.decoded) {
    return misfit(tensor, "its " + field + " takes " + byte_text(place.stored) + ", expected " +
                              std::to_string(place.decoded));
  }
  return std::optional(std::move(stored));
}

Result<std::vector<OnnxExternalEntry>> external_entries(std::span<const std::byte> file,
                                                        const OnnxTensor& tensor) {
  std::vector<OnnxExternalEntry> entries;
  for (const WireExtent& message : tensor.external) {
    OnnxExternalEntry& entry = entries.emplace_back();
    WireReader reader(file, message);
    for (WireField field; reader.next(field);) {
      if (field.is(1)) entry.key = wire_text(file, field.payload);
      if (field.is(2)) entry.value = wire_text(file, field.payload);
    }
    if (!reader.status().ok()) return Failure{"external_data: " + reader.status().failure().message};
  }
  return entries;
}

Result<std::vector<std::byte>> read_onnx_numbers(std::span<const std::byte> file, const WireExtent& message,
                                                 OnnxData data, std::size_t bytes_each, std::uint64_t count) {
  std::vector<std::byte> bytes;
  std::uint64_t found = 0;
  WireReader reader(file, message);
  for (WireField field; reader.next(field);) {
    const std::optional<DataField> row = data_field(field.number);
    if (!row || row->data != data || (field.type != WireType::kBytes && field.type != row->single)) continue;
    if (row->single != WireType::kVarint) {
      if (field.payload.size % bytes_each != 0) return Failure{"its data end inside a number"};
      found += field.payload.size / bytes_each;
      const auto run = file.subspan(field.payload.begin, field.payload.size);
      bytes.insert(bytes.end(), run.begin(), run.end());
      continue;
    }
    std::uint64_t at = field.payload.begin;
    for (const std::uint64_t end = at + field.payload.size; at < end; ++found) {
      std::uint64_t number = 0;
      if (!read_wire_varint(file, at, end, number)) return Failure{"its data end inside a number"};
      for (std::size_t i = 0; i < bytes_each; ++i) bytes.push_back(static_cast<std::byte>(number >> 8 * i));
    }
  }
  if (!reader.status().ok()) return reader.status().failure();
  if (found != count) {
    return Failure{std::string(kOnnxDataNames[static_cast<std::size_t>(data)]) + " holds " +
                   count_text(found, "number") + ", expected " + std::to_string(count)};
  }
  return bytes;
}

}  // namespace crumb
