#include "graph/onnx/to_proto.h"

#include <algorithm>

#include "base/files/text.h"
#include "graph/certificate.h"
#include "graph/loop_parts.h"
#include "graph/onnx/loop_bodies.h"

namespace crumb::graph {
namespace {

constexpr int kIrVersion = 8;        // which every consumer of QONNX accepts
constexpr int kIrOfSmallTypes = 10;  // of models with int4 and uint4
constexpr int kIrOfFloat4 = 11;
constexpr int kIrOfInt2 = 13;

void set_type(const Value& value, onnx::ValueInfoProto& proto) {
  if (value.type == ElementType::kUnknown) return;
  auto* tensor = proto.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx_number(value.type));
  if (!value.shape) return;
  auto* shape = tensor->mutable_shape();
  for (const Dim& dim : *value.shape) {
    auto* size = shape->add_dim();
    if (dim.known()) {
      size->set_dim_value(dim.size);
    } else if (!dim.symbol.empty()) {
      size->set_dim_param(dim.symbol);
    }
  }
}

void set_info(const std::string& name, const Value& value, onnx::ValueInfoProto& info) {
  info.set_name(name);
  set_type(value, info);
}

void add_value(const Graph& graph, const std::string& name, onnx::ValueInfoProto& info) {
  info.set_name(name);
  if (const Value* value = graph.find(name)) set_type(*value, info);
}

bool is_listed(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void add_graph(const Graph& graph, onnx::GraphProto& proto);

/// Whether the attribute is a graph that is written: the branch of an If, or the body of a Loop or Scan that
/// takes its own inputs alone (loop_bodies.h).
bool is_written(const Node& node, const Opaque& opaque) {
  return opaque.body && (node.is("If") || (is_loop(node) && opaque.body->inputs.size() == opaque.own_inputs));
}

struct SetAttribute {
  onnx::AttributeProto& proto;
  using Kind = onnx::AttributeProto;

  void operator()(std::int64_t value) const {
    proto.set_type(Kind::INT);
    proto.set_i(value);
  }
  void operator()(float value) const {
    proto.set_type(Kind::FLOAT);
    proto.set_f(value);
  }
  void operator()(const std::string& value) const {
    proto.set_type(Kind::STRING);
    proto.set_s(value);
  }
  void operator()(const Tensor& value) const {
    proto.set_type(Kind::TENSOR);
    *proto.mutable_t() = to_proto("", value);
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    proto.set_type(Kind::INTS);
    proto.mutable_ints()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<float>& values) const {
    proto.set_type(Kind::FLOATS);
    proto.mutable_floats()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<std::string>& values) const {
    proto.set_type(Kind::STRINGS);
    for (const std::string& value : values) proto.add_strings(value);
  }
  void operator()(const Opaque& value) const {
    proto.set_type(Kind::GRAPH);
    add_graph(*value.body, *proto.mutable_g());
  }
};

void add_node(const Node& node, const ToProtoOptions& options, onnx::GraphProto& graph) {
  onnx::NodeProto& proto = *graph.add_node();
  proto.set_name(node.name);
  proto.set_op_type(node.op);
  proto.set_domain(node.domain);
  for (const std::string& input : node.inputs) proto.add_input(input);
  for (const std::string& output : node.outputs) proto.add_output(output);
  for (const auto& [name, attribute] : node.attributes) {
    const auto* opaque = std::get_if<Opaque>(&attribute);
    const bool is_kept_out = opaque && (!is_written(node, *opaque) || (options.keep_opaque && is_loop(node)));
    if (is_kept_out && options.keep_opaque) continue;
    if (is_kept_out) {
      throw Error(text_of(node) + " cannot be written: attribute " + quote_text(name) + " is " +
                  opaque->what);
    }
    onnx::AttributeProto& attribute_proto = *proto.add_attribute();
    attribute_proto.set_name(name);
    std::visit(SetAttribute{attribute_proto}, attribute);
  }
}

/// A branch or body: nodes, constants and what is known of their values.
void add_graph(const Graph& graph, onnx::GraphProto& proto) {
  proto.set_name(graph.name.empty() ? "body" : graph.name);
  for (const std::string& input : graph.inputs) add_value(graph, input, *proto.add_input());
  for (const std::string& output : graph.outputs) add_value(graph, output, *proto.add_output());
  for (const auto& [name, tensor] : graph.initializers) *proto.add_initializer() = to_proto(name, tensor);
  for (const Node& node : graph.nodes) add_node(node, {}, proto);
  for (const auto& [name, value] : graph.values) {
    const bool is_inside = value.type != ElementType::kUnknown && !graph.initializers.contains(name) &&
                           !is_listed(graph.inputs, name) && !is_listed(graph.outputs, name);
    if (is_inside) set_info(name, value, *proto.add_value_info());
  }
}

int ir_version_of(const Graph& graph) {
  int version = kIrVersion;
  const auto see = [&](ElementType type) {
    if (type == ElementType::kInt4 || type == ElementType::kUint4)
      version = std::max(version, kIrOfSmallTypes);
    if (type == ElementType::kFloat4E2M1) version = std::max(version, kIrOfFloat4);
    if (type == ElementType::kInt2 || type == ElementType::kUint2) version = std::max(version, kIrOfInt2);
  };
  for (const auto& [name, tensor] : graph.initializers) see(tensor.type());
  for (const auto& [name, value] : graph.values) see(value.type);
  return version;
}

}  // namespace

onnx::TensorProto to_proto(const std::string& name, const Tensor& tensor) {
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(onnx_number(tensor.type()));
  for (const std::int64_t size : tensor.shape()) proto.add_dims(size);
  const HeldBytes held = tensor.held();
  proto.set_raw_data(held.bytes().data(), held.bytes().size());
  return proto;
}

namespace {

/// Operator sets, metadata and certificates.
void add_head(const Graph& graph, onnx::ModelProto& model) {
  model.set_ir_version(ir_version_of(graph));
  model.set_producer_name("crumb");
  // The default domain comes first: tools that read opset_import[0] take it for ONNX's.
  const auto import = [&](const std::string& domain, std::int64_t version) {
    auto* opset = model.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(version);
  };
  import("", graph.opset());
  for (const auto& [domain, version] : graph.opsets) {
    if (domain != kOnnxDomain) import(domain, version);
  }
  const auto say = [&](const std::string& key, const std::string& value) {
    auto* entry = model.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  };
  for (const auto& [key, value] : graph.metadata) {
    if (key != kAccumulatorKey) say(key, value);
  }
  if (const auto certificates = certificates_text(graph)) say(kAccumulatorKey, *certificates);
}

void add_constants(const Graph& graph, const ToProtoOptions& options, onnx::GraphProto& proto) {
  for (const auto& [name, tensor] : graph.initializers) {
    if (options.states_initializers) set_info(name, value_of(tensor), *proto.add_value_info());
    if (options.without_initializers) continue;
    if (options.most_elements < 0 || tensor.size() <= options.most_elements) {
      *proto.add_initializer() = to_proto(name, tensor);
    } else {
      set_info(name, value_of(tensor), *proto.add_input());
    }
  }
  for (const auto& [name, constant] : graph.quantized) {
    if (!options.quantized_as_inputs) {
      throw Error("the constant " + quote_text(name) +
                  " is kept as codes, which ONNX has no place for: lower " + "it to a quantizer first");
    }
    const auto shape = constant.shape();
    set_info(name, {.type = ElementType::kFloat, .shape = Shape(shape.begin(), shape.end())},
             *proto.add_input());
  }
}

/// Types of values between nodes, and annotations of all.
void add_values(const Graph& graph, onnx::GraphProto& proto) {
  const auto is_boundary = [&](const std::string& name) {
    return graph.initializers.contains(name) || graph.quantized.contains(name) ||
           is_listed(graph.inputs, name) || is_listed(graph.outputs, name);
  };
  for (const auto& [name, value] : graph.values) {
    if (value.type != ElementType::kUnknown && !is_boundary(name))
      add_value(graph, name, *proto.add_value_info());
    if (value.annotations.empty()) continue;
    auto* annotation = proto.add_quantization_annotation();
    annotation->set_tensor_name(name);
    for (const auto& [key, text] : value.annotations) {
      auto* entry = annotation->add_quant_parameter_tensor_names();
      entry->set_key(key);
      entry->set_value(text);
    }
  }
}

}  // namespace

namespace {

onnx::ModelProto model_of(const Graph& graph, const ToProtoOptions& options) {
  onnx::ModelProto model;
  add_head(graph, model);
  onnx::GraphProto& proto = *model.mutable_graph();
  proto.set_name(graph.name.empty() ? "graph" : graph.name);
  for (const std::string& input : graph.inputs) add_value(graph, input, *proto.add_input());
  for (const std::string& output : graph.outputs) add_value(graph, output, *proto.add_output());
  add_constants(graph, options, proto);
  for (const Node& node : graph.nodes) add_node(node, options, proto);
  add_values(graph, proto);
  return model;
}

}  // namespace

onnx::ModelProto to_proto(const Graph& graph, const ToProtoOptions& options) {
  const bool opens = !options.keep_opaque && has_loops(graph);
  return opens ? model_of(with_open_bodies(graph), options) : model_of(graph, options);
}

}  // namespace crumb::graph
