#include "graph/onnx/array_files.h"

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "formats/npy/npy.h"
#include "graph/onnx/read.h"

namespace crumb::graph {
namespace {

ElementType array_type(DType dtype) {
  for (const ElementTypeInfo& row : kElementTypes) {
    if (row.dtype == dtype) return row.type;
  }
  throw Error("arrays of " + std::string(dtype_name(dtype)) + " are not supported");
}

std::vector<std::uint64_t> sizes_of(const Tensor& tensor) {
  return {tensor.shape().begin(), tensor.shape().end()};
}

}  // namespace

Tensor read_array(const std::filesystem::path& path) {
  if (path.extension() == ".pb") {
    const MappedFile file = MappedFile::open(path).take();
    return parse_onnx_tensor_file(file.bytes()).take(quote_text(path.string())).tensor;
  }
  NpyArray array = read_npy(path).take();
  return {array_type(array.dtype), {array.shape.begin(), array.shape.end()}, std::move(array.data)};
}

void write_array(const std::filesystem::path& path, const Tensor& tensor) {
  const auto& row = info(tensor.type());
  if (row.dtype && !dtype_info(*row.dtype).numpy.empty()) {
    return write_npy(path, *row.dtype, sizes_of(tensor), tensor.bytes());
  }
  if (is_float(tensor.type())) {
    const std::vector<float> values = tensor.to_floats();
    return write_npy(path, DType::kF32, sizes_of(tensor), std::as_bytes(std::span(values)));
  }
  std::vector<std::byte> bytes;
  for (const std::int64_t value : tensor.to_ints()) bytes.push_back(static_cast<std::byte>(value));
  const bool is_signed = row.kind == ElementKind::kSigned;
  write_npy(path, is_signed ? DType::kI8 : DType::kU8, sizes_of(tensor), bytes);
}

std::string file_name_of(const std::string& value) {
  std::string name = value;
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  if (name.empty() || name.front() == '.') name.insert(0, "_");
  return name;
}

}  // namespace crumb::graph
