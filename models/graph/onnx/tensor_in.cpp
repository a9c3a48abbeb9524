#include "models/graph/onnx/tensor_in.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "formats/io/input_file.h"
#include "formats/io/plain_path.h"
#include "formats/io/text.h"

namespace crumb::graph {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostAxes = 64;

std::string who(const onnx::TensorProto& proto) { return "tensor " + quote_text(proto.name()) + ": "; }

/// The low bytes of numbers that a typed field holds, `stored` of them: one an element, or one a byte for
/// elements below a byte.
template <class Numbers>
std::vector<std::byte> bytes_of(const onnx::TensorProto& proto, const Numbers& numbers, std::size_t each,
                                std::uint64_t needed, const char* field) {
  const auto found = static_cast<std::uint64_t>(numbers.size());
  if (found * each != needed) {
    throw Error(who(proto) + field + " holds " + std::to_string(found) + " numbers, expected " +
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

std::uint64_t number_in(const onnx::TensorProto& proto, const std::string& key, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(who(proto) + "external " + key + " is " + quote_text(text) + ", expected a number");
  }
  return value;
}

bool lies_in(const fs::path& file, const fs::path& folder) {
  const fs::path relative = file.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

std::vector<std::byte> external_data(const onnx::TensorProto& proto, const DataFolder& folder,
                                     std::uint64_t needed) {
  std::string location;
  std::uint64_t offset = 0;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = number_in(proto, "offset", entry.value());
    if (entry.key() == "length" && number_in(proto, "length", entry.value()) != needed) {
      throw Error(who(proto) + "external length is " + quote_text(entry.value()) + ", expected " +
                  std::to_string(needed));
    }
  }
  const std::optional<std::string> plain = plain_path(location);
  const auto outside = [&] {
    return Error(who(proto) + "its data are at " + quote_text(location) +
                 ", expected a path to a file inside the model's folder");
  };
  if (!plain) throw outside();
  const fs::path path = folder.folder / *plain;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (!error) {
    const fs::path home = fs::weakly_canonical(folder.folder, error);
    if (!lies_in(real, home) && !lies_in(real, folder.real_folder)) throw outside();
  }
  const InputFile file = InputFile::open(path).take(who(proto) + "external data");
  if (offset > file.size() || needed > file.size() - offset) {
    throw Error(who(proto) + "its data are bytes " + std::to_string(offset) + " to " +
                std::to_string(offset + needed) + " of " + quote_text(path.string()) + ", which has " +
                byte_text(file.size()));
  }
  std::vector<std::byte> bytes(needed);
  file.read(offset, bytes).take(who(proto) + "external data");
  return bytes;
}

}  // namespace

Tensor tensor_from(const onnx::TensorProto& proto, const DataFolder& folder) {
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
