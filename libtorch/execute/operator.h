// The interface between the operators of a graph and the functions that compute them on ATen.
//
// Each file of ops/ holds one family of operators: functions from a Call to the outputs, and a table of them.
// The semantics are ONNX's, for every version of the operator set: where versions differ, the function looks
// at call.version(). QONNX's operators follow shared facts of its reference implementation bit for bit.
//
// The functions are built from ATen operators, so they run on any device and are differentiable where the
// operator is. Integer inputs such as axes and shapes are read on the CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libtorch/execute/typed_tensor.h"

namespace crumb::libtorch {

using Outputs = std::vector<TypedTensor>;

/// One execution of a node: the node, and its inputs.
class Call {
 public:
  Call(const graph::Node& node, std::span<const TypedTensor> inputs) : node_(node), inputs_(inputs) {}

  const graph::Node& node() const { return node_; }
  std::int64_t version() const { return node_.version; }

  std::size_t inputs() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].defined(); }
  const TypedTensor& in(std::size_t i) const;  ///< throws Error where it is left out
  const at::Tensor& tensor(std::size_t i) const { return in(i).tensor; }
  graph::ElementType type(std::size_t i) const { return in(i).type; }
  /// Whether the operator may write over input i: nobody else holds it, and no gradient is wanted.
  bool may_overwrite(std::size_t i) const;
  std::size_t outputs() const { return node_.outputs.size(); }  ///< that the node names
  bool wants(std::size_t i) const { return node_.has_output(i); }

  std::int64_t int_or(const char* name, std::int64_t otherwise) const {
    return node_.int_or(name, otherwise);
  }
  float float_or(const char* name, float otherwise) const { return node_.float_or(name, otherwise); }
  std::string text_or(const char* name, const char* otherwise) const {
    return node_.text_or(name, otherwise);
  }

  /// Integers of an input tensor, flattened; of an attribute; or of whichever of the two is there (for
  /// operators whose attributes became inputs).
  std::vector<std::int64_t> ints(std::size_t i) const;
  std::optional<std::vector<std::int64_t>> ints_attribute(const char* name) const;
  std::optional<std::vector<std::int64_t>> ints(std::size_t i, const char* name) const;

  /// Throws Error with the node's name before the text.
  [[noreturn]] void fail(const std::string& text) const;

 private:
  const graph::Node& node_;
  std::span<const TypedTensor> inputs_;
};

using Kernel = Outputs (*)(const Call& call);

struct OperatorRow {
  std::string_view op;
  Kernel kernel;
  std::string_view domain = graph::kOnnxDomain;
};

/// The function that computes the operator, or null.
Kernel find_operator(std::string_view op, std::string_view domain);

/// Every operator, by family.
std::vector<OperatorRow> all_operators();

/// An axis as a number from 0 on. Throws Error where it is outside [-rank, rank).
std::int64_t usual_axis(const Call& call, std::int64_t axis, std::int64_t rank);

/// One output with the type of input 0, or with another.
Outputs like_input(const Call& call, at::Tensor result);
inline Outputs one(at::Tensor result, graph::ElementType type) { return {{std::move(result), type}}; }

}  // namespace crumb::libtorch
