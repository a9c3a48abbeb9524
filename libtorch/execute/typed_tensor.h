// A tensor of one of ONNX's element types in a LibTorch tensor.
//
// LibTorch computes with fewer types than ONNX has. A value is carried by a tensor of a wider type, and holds
// nothing that its own type could not hold:
//
//   bool, uint8, int8, int16, int32, int64, float16, bfloat16, float, double, complex: as they are
//   uint16 in int32, uint32 in int64
//   uint64 in int64, by its bits: what orders or divides such values must mind the sign
//   int4, int2 in int8; uint4, uint2 in uint8
//   float8*, float4e2m1 in float, by value
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "graph/graph.h"

namespace crumb::libtorch {

struct TypedTensor {
  at::Tensor tensor;  ///< of scalar type carrier_of(type)
  graph::ElementType type = graph::ElementType::kUnknown;

  bool defined() const { return tensor.defined(); }
};

/// Throws Error for strings and the unknown type.
at::ScalarType carrier_of(graph::ElementType type);

/// The type that a LibTorch tensor carries when it stands for itself (int64 for kLong). Throws Error for
/// LibTorch's quantized and bit types.
graph::ElementType type_of(at::ScalarType type);

/// A tensor that stands for itself.
TypedTensor typed(at::Tensor tensor);
std::vector<TypedTensor> typed_all(const std::vector<at::Tensor>& tensors);
std::vector<at::Tensor> tensors_of(const std::vector<TypedTensor>& values);

/// A constant on a device, and back. to_constant needs values that the type holds.
TypedTensor to_typed(const graph::Tensor& constant, at::Device device = at::kCPU);

/// The same without a copy, where LibTorch has the type: a tensor of the constant's own memory, which nobody
/// may write to.
TypedTensor borrowed(const graph::Tensor& constant);
graph::Tensor to_constant(const TypedTensor& value);

/// Brings a result of the carrier's arithmetic into an integer type's range as two's complement wraps around.
/// The identity for every type that is its own carrier, and for floats.
TypedTensor wrapped(at::Tensor tensor, graph::ElementType type);

/// "float [2, 3]", for messages.
std::string text_of(const TypedTensor& value);

}  // namespace crumb::libtorch
