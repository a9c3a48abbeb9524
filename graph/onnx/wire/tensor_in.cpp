#include "graph/onnx/wire/tensor_in.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/files/input_file.h"
#include "base/files/text.h"

namespace crumb::graph {
namespace {

constexpr std::uint64_t kLeastUnread = 1 << 20;  // bytes of data left in the file until requested

/// Returns the field with a type's data, if raw_data has none.
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
  if (field == OnnxData::kFloat) bytes_each = 4;  // of the real and the imaginary part each
  if (field == OnnxData::kDouble) bytes_each = 8;
  return read_onnx_numbers(file, message, field, bytes_each, needed / bytes_each).take(who);
}

/// Reads bytes of a file, now, or if they are large when requested. `who` names the tensor in errors.
Tensor bytes_of_file(std::shared_ptr<const InputFile> file, std::uint64_t offset, std::uint64_t needed,
                     ElementType type, std::vector<std::int64_t> shape, const std::string& who) {
  auto read = [file = std::move(file), offset, who](std::uint64_t first, std::span<std::byte> to) {
    file->read(offset + first, to).take(who);
  };
  if (needed >= kLeastUnread) return Tensor::in_parts(type, std::move(shape), std::move(read));
  std::vector<std::byte> bytes(needed);
  read(0, bytes);
  return {type, std::move(shape), std::move(bytes)};
}

}  // namespace

Tensor tensor_in(std::span<const std::byte> file, const WireExtent& message, const OnnxTensor& proto,
                 const OnnxDataFolder& folder, const std::shared_ptr<const InputFile>& source) {
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
  if (proto.is_external) {
    const std::vector<OnnxExternalEntry> entries = external_entries(file, proto).take(who);
    const OnnxExternalPlace place = place_onnx_external(entries, needed).take(who);
    auto outside = folder.open(place).take(who);
    check_onnx_external(place, needed, outside->size()).take(who);
    return bytes_of_file(std::move(outside), place.offset, needed, *type, std::move(shape),
                         who + ": its external data");
  }
  const OnnxRun& raw = proto.run(OnnxData::kRaw);
  if (raw.pieces == 0) return {*type, std::move(shape), typed_data(file, message, *type, needed, who)};
  if (raw.extent.size != needed) {
    throw Error(who + ": raw_data holds " + byte_text(raw.extent.size) + ", expected " +
                std::to_string(needed) + " for " + std::string(name_of(*type)) + " " + text_of(shape));
  }
  if (source && needed >= kLeastUnread)
    return bytes_of_file(source, raw.extent.begin, needed, *type, std::move(shape), who);
  const auto bytes = file.subspan(raw.extent.begin, needed);
  return {*type, std::move(shape), {bytes.begin(), bytes.end()}};
}

}  // namespace crumb::graph
