#include "graph/onnx/tensor_in.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "base/checked_size.h"
#include "base/files/counted.h"
#include "base/files/input_file.h"
#include "base/files/text.h"

namespace crumb::graph {
namespace {

constexpr std::size_t kMostAxes = 64;

std::string who(const onnx::TensorProto& proto) { return "tensor " + quote_text(proto.name()) + ": "; }

/// The low bytes of numbers that a typed field holds, `stored` of them: one an element, or one a byte for
/// elements below a byte.
template <class Numbers>
std::vector<std::byte> bytes_of(const onnx::TensorProto& proto, const Numbers& numbers, std::size_t each,
                                std::uint64_t needed, const char* field) {
  const auto found = static_cast<std::uint64_t>(numbers.size());
  if (checked::multiply(found, each) != needed) {
    throw Error(who(proto) + field + " holds " + count_text(found, "number") + ", expected " +
                std::to_string(needed / each));
  }
  std::vector<std::byte> bytes(needed);
  for (int i = 0; i < numbers.size(); ++i) {
    const auto number = numbers.Get(i);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * each, &number, each);
  }
  return bytes;
}

std::vector<std::byte> typed_data(const onnx::TensorProto& proto, ElementType type, std::uint64_t needed) {
  const std::size_t size = std::max<std::size_t>(info(type).bits / 8, 1);
  switch (type) {
    case ElementType::kFloat:
    case ElementType::kComplex64: return bytes_of(proto, proto.float_data(), 4, needed, "float_data");
    case ElementType::kDouble:
    case ElementType::kComplex128: return bytes_of(proto, proto.double_data(), 8, needed, "double_data");
    case ElementType::kInt64: return bytes_of(proto, proto.int64_data(), 8, needed, "int64_data");
    case ElementType::kUint32:
    case ElementType::kUint64: return bytes_of(proto, proto.uint64_data(), size, needed, "uint64_data");
    default: return bytes_of(proto, proto.int32_data(), size, needed, "int32_data");
  }
}

std::vector<std::byte> external_data(const onnx::TensorProto& proto, const OnnxDataFolder& folder,
                                     std::uint64_t needed) {
  std::vector<OnnxExternalEntry> entries;
  for (const auto& entry : proto.external_data()) entries.push_back({entry.key(), entry.value()});
  const std::string where = "tensor " + quote_text(proto.name());
  const OnnxExternalPlace place = place_onnx_external(entries, needed).take(where);
  const InputFile file = InputFile::open(folder.find(place).take(where)).take(where + ": its external data");
  check_onnx_external(place, needed, file.size()).take(where);
  std::vector<std::byte> bytes(needed);
  file.read(place.offset, bytes).take(where + ": its external data");
  return bytes;
}

}  // namespace

Tensor tensor_from(const onnx::TensorProto& proto, const OnnxDataFolder& folder) {
  const std::optional<ElementType> type = element_type_of(proto.data_type());
  if (!type || info(*type).bits == 0) {
    throw Error(who(proto) + "found elements of type " +
                (type ? std::string(name_of(*type)) : "number " + std::to_string(proto.data_type())) +
                ", expected numbers");
  }
  if (proto.has_segment()) throw Error(who(proto) + "is a segment of a tensor, which is not supported");
  if (proto.dims_size() > static_cast<int>(kMostAxes)) {
    throw Error(who(proto) + "has " + std::to_string(proto.dims_size()) + " axes, expected at most " +
                std::to_string(kMostAxes));
  }
  std::vector<std::int64_t> shape(proto.dims().begin(), proto.dims().end());
  const std::int64_t count = count_elements(shape).take("tensor " + quote_text(proto.name()));
  const std::uint64_t needed = packed_bytes(*type, count).take("tensor " + quote_text(proto.name()));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    return {*type, std::move(shape), external_data(proto, folder, needed)};
  }
  if (!proto.has_raw_data()) return {*type, std::move(shape), typed_data(proto, *type, needed)};
  const std::string& raw = proto.raw_data();
  if (raw.size() != needed) {
    throw Error(who(proto) + "raw_data holds " + byte_text(raw.size()) + ", expected " +
                std::to_string(needed) + " for " + std::string(name_of(*type)) + " " + text_of(shape));
  }
  const auto bytes = std::as_bytes(std::span(raw));
  return {*type, std::move(shape), {bytes.begin(), bytes.end()}};
}

}  // namespace crumb::graph
