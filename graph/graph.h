// A network as a graph: nodes in an order in which they can be executed, values between them, constants.
//
// The vocabulary is ONNX's: an operator is a name in a domain, with the semantics of the operator set that
// the graph imports for it; a value has the name that the file gives it, and one producer (a node, an input
// or an initializer). QONNX's operators are in kQonnxDomain and kChannelsLastDomain, whatever older names
// their file used.
//
// A Graph is a plain value: copying is cheap (constants are shared), passes (graph/passes) are functions from
// graph to graph.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/element_type.h"
#include "graph/quantized_constant.h"
#include "graph/tensor.h"

namespace crumb::graph {

inline constexpr std::string_view kOnnxDomain = "";  ///< "ai.onnx" is the same
inline constexpr std::string_view kQonnxDomain = "qonnx.custom_op.general";
inline constexpr std::string_view kChannelsLastDomain = "qonnx.custom_op.channels_last";

/// One size of a shape: a number, a symbol that stands for one ("batch"), or nothing known.
struct Dim {
  std::int64_t size = -1;  ///< -1: not known
  std::string symbol;

  Dim() = default;
  Dim(std::int64_t known) : size(known) {}  // NOLINT(google-explicit-constructor): a size is a dim
  explicit Dim(std::string name) : symbol(std::move(name)) {}
  bool known() const { return size >= 0; }
  bool operator==(const Dim&) const = default;
};
using Shape = std::vector<Dim>;

/// "[batch, 3, ?]".
std::string text_of(const Shape& shape);

/// What the graph knows about a value.
struct Value {
  ElementType type = ElementType::kUnknown;
  std::optional<Shape> shape;  ///< nothing: even the rank is unknown
  /// QONNX's annotations (quantization_annotation), by key: finn_datatype, tensor_layout, tensor_sparsity.
  /// Texts, never evaluated.
  std::map<std::string, std::string> annotations;

  bool is_static() const;  ///< the shape is known, every size a number
  bool operator==(const Value&) const = default;
};

struct Graph;

/// An attribute that a graph cannot hold, by what it was: "a graph", "a type". A node with such an attribute
/// can be neither executed nor written.
struct Opaque {
  std::string what;
  /// The body of a Loop or Scan (control/unroll.h). Values from outside are inputs behind its own, and the
  /// node takes them behind its own.
  std::shared_ptr<const Graph> body = nullptr;
  std::size_t own_inputs = 0;  ///< of the body
  bool operator==(const Opaque&) const = default;
};

using Attribute = std::variant<std::int64_t, float, std::string, Tensor, std::vector<std::int64_t>,
                               std::vector<float>, std::vector<std::string>, Opaque>;

struct Node {
  std::string name;
  std::string op;
  std::string domain;
  std::int64_t version = 1;          ///< of the domain's operator set
  std::vector<std::string> inputs;   ///< "" where an optional input is left out
  std::vector<std::string> outputs;  ///< "" where an optional output is left out
  std::map<std::string, Attribute> attributes;
  /// What is said about the node without changing what it computes, by key: ONNX's metadata_props. A pass
  /// that replaces a node copies them to the new one. Files store kAccumulatorKey of them
  /// (graph/certificate.h).
  std::map<std::string, std::string> metadata = {};

  bool is(std::string_view name_of_op, std::string_view in_domain = kOnnxDomain) const {
    return op == name_of_op && domain == in_domain;
  }
  bool has_input(std::size_t i) const { return i < inputs.size() && !inputs[i].empty(); }
  bool has_output(std::size_t i) const { return i < outputs.size() && !outputs[i].empty(); }

  /// Returns the attribute of this name, or `otherwise` where the node has none. Throws Error, which names
  /// the node, where the attribute has another type.
  std::int64_t int_or(const std::string& attribute, std::int64_t otherwise) const;
  float float_or(const std::string& attribute, float otherwise) const;
  std::string text_or(const std::string& attribute, const std::string& otherwise) const;
  std::vector<std::int64_t> ints_or(const std::string& attribute, std::vector<std::int64_t> otherwise) const;
  std::vector<float> floats_or(const std::string& attribute, std::vector<float> otherwise) const;
  std::vector<std::string> texts_or(const std::string& attribute, std::vector<std::string> otherwise) const;
  bool has(const std::string& attribute) const { return attributes.contains(attribute); }
};

/// Returns "node 'conv1' (Conv)", for messages.
std::string text_of(const Node& node);

/// Whether an attribute of the node is Opaque.
bool is_opaque(const Node& node);

/// Whether the node draws random numbers.
bool is_random(const Node& node);

/// Whether the node is QONNX's Quant, IntQuant, BipolarQuant or FloatQuant, which quantize a tensor and keep
/// its shape.
bool is_quantizer(const Node& node);

/// Returns the tensor of a Constant node; nothing for other nodes, and where the graph cannot hold it.
std::optional<Tensor> constant_of(const Node& node);

/// Returns type and shape of a constant.
Value value_of(const Tensor& constant);

struct Graph {
  std::string name;
  std::vector<std::string> inputs;  ///< without the initializers
  std::vector<std::string> outputs;
  std::vector<Node> nodes;  ///< each after those whose outputs it takes
  std::map<std::string, Tensor> initializers;
  /// Constants that are kept as codes. Nodes take their float32 values as they take initializers. Code that
  /// needs ONNX's or QONNX's operators for them first calls a function of quantized_constants.h.
  std::map<std::string, QuantizedConstant> quantized;
  std::map<std::string, Value> values;         ///< types and shapes, where known, constants' too
  std::map<std::string, std::int64_t> opsets;  ///< domain -> version
  std::map<std::string, std::string> metadata;

  const Tensor* constant(const std::string& value) const;  ///< an initializer, or null
  const Value* find(const std::string& value) const;
  /// The shape of a constant, or the known shape of another value.
  std::optional<Shape> shape_of(const std::string& value) const;
  std::optional<std::size_t> rank_of(const std::string& value) const;
  std::int64_t opset(std::string_view domain = kOnnxDomain) const;  ///< 1 where the graph does not import it

  /// Returns a name that no value or node has yet: `wish`, or `wish_1`, `wish_2`, ...
  std::string unused_value_name(const std::string& requested) const;
  std::string unused_node_name(const std::string& requested) const;
};

/// Which node produces and which nodes consume each value. Holds indices into graph.nodes, which are invalid
/// once those change.
class Links {
 public:
  explicit Links(const Graph& graph);

  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t producer(const std::string& value) const;                    ///< kNone for inputs and constants
  std::span<const std::size_t> consumers(const std::string& value) const;  ///< lists a node once for each use
  bool is_output(const std::string& value) const;

 private:
  std::map<std::string, std::size_t, std::less<>> producers_;
  std::map<std::string, std::vector<std::size_t>, std::less<>> consumers_;
  std::map<std::string, bool, std::less<>> outputs_;
};

/// Returns the graph with its nodes in an order in which they can be executed, those of a branch (choose.h)
/// behind its condition; an order that is valid already stays. Throws Error, which names the values, where
/// there is a cycle, a value without producer, or one with two.
Graph sorted(Graph graph);

}  // namespace crumb::graph
