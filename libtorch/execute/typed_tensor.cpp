#include "libtorch/execute/typed_tensor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/number/minifloat.h"
#include "formats/number/number_format.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

std::vector<std::int64_t> sizes_of(const at::Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

/// Types whose elements lie in memory as their carrier's do.
bool is_its_own_carrier(ElementType type) {
  return graph::info(type).bits == c10::elementSize(carrier_of(type)) * 8 && type != ElementType::kUint64;
}

template <class T>
at::Tensor from_values(const std::vector<T>& values, const std::vector<std::int64_t>& shape,
                       at::ScalarType type) {
  at::Tensor out = at::empty(shape, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
  if (!values.empty()) std::memcpy(out.data_ptr(), values.data(), values.size() * sizeof(T));
  return out.to(type);
}

/// Bytes of values whose elements take `bits`, packed lowest bits first.
std::vector<std::byte> packed(std::span<const std::uint8_t> codes, unsigned bits) {
  std::vector<std::byte> bytes((codes.size() * bits + 7) / 8);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const unsigned code = codes[i] & ((1u << bits) - 1);
    bytes[i * bits / 8] |= static_cast<std::byte>(code << (i * bits % 8));
  }
  return bytes;
}

/// The code of a value of float8e8m0: the exponent's byte.
std::uint8_t power_code(float value) {
  if (std::isnan(value)) return 255;
  return static_cast<std::uint8_t>(value > 0 ? std::clamp(std::ilogb(value), -127, 127) + 127 : 0);
}

std::vector<std::byte> float_bytes(const at::Tensor& values, ElementType type) {
  const std::string_view format = dtype_info(*graph::info(type).dtype).number_format;
  const NumberFormat& number = *find_number_format(format);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(values.numel()));
  const float* from = values.const_data_ptr<float>();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = type == ElementType::kFloat8E8M0 ? power_code(from[i])
                                                : encode_minifloat(number, from[i], Overflow::kSpecial);
  }
  return packed(codes, graph::info(type).bits);
}

}  // namespace

at::ScalarType carrier_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
    case ElementType::kFloat8E4M3fn:
    case ElementType::kFloat8E4M3fnuz:
    case ElementType::kFloat8E5M2:
    case ElementType::kFloat8E5M2fnuz:
    case ElementType::kFloat8E8M0:
    case ElementType::kFloat4E2M1: return at::kFloat;
    case ElementType::kUint8:
    case ElementType::kUint4:
    case ElementType::kUint2: return at::kByte;
    case ElementType::kInt8:
    case ElementType::kInt4:
    case ElementType::kInt2: return at::kChar;
    case ElementType::kInt16: return at::kShort;
    case ElementType::kUint16:
    case ElementType::kInt32: return at::kInt;
    case ElementType::kUint32:
    case ElementType::kUint64:
    case ElementType::kInt64: return at::kLong;
    case ElementType::kBool: return at::kBool;
    case ElementType::kFloat16: return at::kHalf;
    case ElementType::kBfloat16: return at::kBFloat16;
    case ElementType::kDouble: return at::kDouble;
    case ElementType::kComplex64: return at::kComplexFloat;
    case ElementType::kComplex128: return at::kComplexDouble;
    case ElementType::kString:
    case ElementType::kUnknown: break;
  }
  throw Error("values of type " + std::string(graph::name_of(type)) + " cannot be computed with");
}

ElementType type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return ElementType::kFloat;
    case at::kByte: return ElementType::kUint8;
    case at::kChar: return ElementType::kInt8;
    case at::kShort: return ElementType::kInt16;
    case at::kInt: return ElementType::kInt32;
    case at::kLong: return ElementType::kInt64;
    case at::kBool: return ElementType::kBool;
    case at::kHalf: return ElementType::kFloat16;
    case at::kBFloat16: return ElementType::kBfloat16;
    case at::kDouble: return ElementType::kDouble;
    case at::kComplexFloat: return ElementType::kComplex64;
    case at::kComplexDouble: return ElementType::kComplex128;
    default:
      throw Error(std::string("tensors of LibTorch's type ") + c10::toString(type) + " are not supported");
  }
}

TypedTensor typed(at::Tensor tensor) {
  const ElementType type = type_of(tensor.scalar_type());
  return {std::move(tensor), type};
}

std::vector<TypedTensor> typed_all(const std::vector<at::Tensor>& tensors) {
  std::vector<TypedTensor> all;
  all.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) all.push_back(typed(tensor));
  return all;
}

std::vector<at::Tensor> tensors_of(const std::vector<TypedTensor>& values) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(values.size());
  for (const TypedTensor& value : values) tensors.push_back(value.tensor);
  return tensors;
}

TypedTensor to_typed(const graph::Tensor& constant, at::Device device) {
  const ElementType type = constant.type();
  const at::ScalarType carrier = carrier_of(type);
  at::Tensor out;
  if (is_its_own_carrier(type) || type == ElementType::kUint64) {
    out = at::empty(constant.shape(), at::TensorOptions().dtype(carrier));
    if (constant.size() > 0) std::memcpy(out.data_ptr(), constant.bytes().data(), constant.bytes().size());
  } else if (graph::is_float(type)) {
    out = from_values(constant.to_floats(), constant.shape(), carrier);
  } else {
    out = from_values(constant.to_ints(), constant.shape(), carrier);
  }
  return {out.to(device), type};
}

TypedTensor borrowed(const graph::Tensor& constant) {
  if (!is_its_own_carrier(constant.type()) || constant.size() == 0) return to_typed(constant);
  auto* data =
      const_cast<std::byte*>(constant.bytes().data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  const auto held = [constant](void*) {};
  return {at::from_blob(data, constant.shape(), held, at::TensorOptions().dtype(carrier_of(constant.type()))),
          constant.type()};
}

graph::Tensor to_constant(const TypedTensor& value) {
  const at::Tensor tensor = value.tensor.detach().to(at::kCPU).contiguous();
  const auto bytes_of = [](const at::Tensor& t) {
    const auto* data = static_cast<const std::byte*>(t.data_ptr());
    return std::vector<std::byte>(data, data + t.nbytes());
  };
  std::vector<std::byte> bytes;
  if (is_its_own_carrier(value.type) || value.type == ElementType::kUint64) {
    bytes = bytes_of(tensor);
  } else if (graph::is_float(value.type)) {
    bytes = float_bytes(tensor, value.type);
  } else if (value.type == ElementType::kUint16) {
    bytes = bytes_of(tensor.to(at::kShort));  // wraps around: the same bits
  } else if (value.type == ElementType::kUint32) {
    bytes = bytes_of(tensor.to(at::kInt));
  } else {
    const auto* codes = static_cast<const std::uint8_t*>(tensor.data_ptr());
    bytes = packed({codes, static_cast<std::size_t>(tensor.numel())}, graph::info(value.type).bits);
  }
  return {value.type, sizes_of(tensor), std::move(bytes)};
}

TypedTensor wrapped(at::Tensor tensor, ElementType type) {
  const at::ScalarType carrier = carrier_of(type);
  if (tensor.scalar_type() != carrier) tensor = tensor.to(carrier);
  const unsigned bits = graph::info(type).bits;
  if (graph::is_integer(type) && bits < c10::elementSize(carrier) * 8) {
    const auto mask = (std::int64_t{1} << bits) - 1;
    tensor = tensor.bitwise_and(at::Scalar(mask));
    if (graph::info(type).kind == graph::ElementKind::kSigned) {
      const std::int64_t half = std::int64_t{1} << (bits - 1);
      tensor = tensor.bitwise_xor(at::Scalar(half)).sub(half);
    }
  }
  return {std::move(tensor), type};
}

std::string text_of(const TypedTensor& value) {
  if (!value.defined()) return "nothing";
  return std::string(graph::name_of(value.type)) + " " + graph::text_of(sizes_of(value.tensor));
}

}  // namespace crumb::libtorch
