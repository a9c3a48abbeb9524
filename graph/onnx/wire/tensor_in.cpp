#include "graph/onnx/wire/tensor_in.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/files/input_file.h"
#include "base/files/text.h"

namespace crumb::graph {
namespace {

/// The data field of a type beside raw_data.
OnnxData typed_field(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
    case ElementType::kComplex64: return OnnxData::kFloat;
    case ElementType::kDouble:
    case ElementType::kComplex128: return OnnxData::kDouble;
    case ElementType::kInt64: return OnnxData::kInt64;
    case ElementType::kUint32:
    case ElementType::kUint64: return OnnxData::kUint64;
    default: return OnnxData::kInt32;
  }
}

std::vector<std::byte> typed_data(std::span<const std::byte> file, const WireExtent& message,
                                  ElementType type, std::uint64_t needed, const std::string& who) {
  const OnnxData field = typed_field(type);
  std::size_t bytes_each = std::max<std::size_t>(info(type).bits / 8, 1);
  if (field == OnnxData::kFloat) bytes_each = 4;  // of the two of a complex number each
  if (field == OnnxData::kDouble) bytes_each = 8;
  return read_onnx_numbers(file, message, field, bytes_each, needed / bytes_each).take(who);
}

std::vector<std::byte> external_data(std::span<const std::byte> file, const OnnxTensor& proto,
                                     const OnnxDataFolder& folder, std::uint64_t needed,
                                     const std::string& who) {
  const std::vector<OnnxExternalEntry> entries = external_entries(file, proto).take(who);
  const OnnxExternalPlace place = place_onnx_external(entries, needed).take(who);
  const InputFile outside = InputFile::open(folder.find(place).take(who)).take(who + ": its external data");
  check_onnx_external(place, needed, outside.size()).take(who);
  std::vector<std::byte> bytes(needed);
  outside.read(place.offset, bytes).take(who + ": its external data");
  return bytes;
}

}  // namespace

Tensor tensor_in(std::span<const std::byte> file, const WireExtent& message, const OnnxTensor& proto,
                 const OnnxDataFolder& folder) {
  const std::string who = "tensor " + quote_text(proto.name);
  const std::optional<ElementType> type = element_type_of(proto.data_type);
  if (!type || info(*type).bits == 0) {
    throw Error(who + ": found elements of type " +
                (type ? std::string(name_of(*type)) : "number " + std::to_string(proto.data_type)) +
                ", expected numbers");
  }
  if (proto.is_segment) throw Error(who + ": is a segment of a tensor, which is not supported");
  std::vector<std::int64_t> shape(proto.dims.begin(), proto.dims.end());
  const std::int64_t count = count_elements(shape).take(who);
  const std::uint64_t needed = packed_bytes(*type, count).take(who);
  if (proto.is_external) return {*type, std::move(shape), external_data(file, proto, folder, needed, who)};
  const OnnxRun& raw = proto.run(OnnxData::kRaw);
  if (raw.pieces == 0) return {*type, std::move(shape), typed_data(file, message, *type, needed, who)};
  if (raw.extent.size != needed) {
    throw Error(who + ": raw_data holds " + byte_text(raw.extent.size) + ", expected " +
                std::to_string(needed) + " for " + std::string(name_of(*type)) + " " + text_of(shape));
  }
  const auto bytes = file.subspan(raw.extent.begin, needed);
  return {*type, std::move(shape), {bytes.begin(), bytes.end()}};
}

}  // namespace crumb::graph
