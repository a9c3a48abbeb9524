#include "graph/onnx/from_proto.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/files/text.h"
#include "graph/certificate.h"
#include "graph/onnx/domains.h"
#include "graph/onnx/schemas.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kMostAxes = 64;

void check_name(const std::string& name, const char* what) {
  if (!is_utf8(name)) throw Error(std::string(what) + " " + quote_text(name) + " is not UTF-8");
}

/// What an attribute of a kind that a graph cannot hold was.
const char* opaque_kind(onnx::AttributeProto::AttributeType type) {
  switch (type) {
    case onnx::AttributeProto::GRAPH:
    case onnx::AttributeProto::GRAPHS: return "a graph";
    case onnx::AttributeProto::SPARSE_TENSOR:
    case onnx::AttributeProto::SPARSE_TENSORS: return "a sparse tensor";
    case onnx::AttributeProto::TENSORS: return "a list of tensors";
    case onnx::AttributeProto::TYPE_PROTO:
    case onnx::AttributeProto::TYPE_PROTOS: return "a type";
    default: return "of an unknown kind";
  }
}

/// The type of an attribute of a file so old that it does not say.
onnx::AttributeProto::AttributeType type_of(const onnx::AttributeProto& proto) {
  if (proto.type() != onnx::AttributeProto::UNDEFINED) return proto.type();
  if (proto.has_f()) return onnx::AttributeProto::FLOAT;
  if (proto.has_i()) return onnx::AttributeProto::INT;
  if (proto.has_s()) return onnx::AttributeProto::STRING;
  if (proto.has_t()) return onnx::AttributeProto::TENSOR;
  if (proto.has_g()) return onnx::AttributeProto::GRAPH;
  if (proto.floats_size() > 0) return onnx::AttributeProto::FLOATS;
  if (proto.ints_size() > 0) return onnx::AttributeProto::INTS;
  if (proto.strings_size() > 0) return onnx::AttributeProto::STRINGS;
  return onnx::AttributeProto::UNDEFINED;
}

class Reader {
 public:
  Reader(const onnx::ModelProto& model, const OnnxDataFolder& folder) : model_(model), folder_(folder) {}

  Graph go() {
    const onnx::GraphProto& from = model_.graph();
    if (model_.training_info_size() > 0)
      throw Error("the file holds graphs for training, which are not supported");
    graph_.name = from.name();
    read_opsets();
    read_initializers(from);
    for (const auto& input : from.input()) {
      read_value(input, "input");
      if (!graph_.initializers.contains(input.name())) graph_.inputs.push_back(input.name());
    }
    refuse_twice(graph_.inputs, "input");
    for (const auto& output : from.output()) {
      read_value(output, "output");
      graph_.outputs.push_back(output.name());
    }
    for (const auto& value : from.value_info()) read_value(value, "value");
    for (const auto& node : from.node()) graph_.nodes.push_back(read_node(node));
    for (const auto& annotation : from.quantization_annotation()) {
      for (const auto& entry : annotation.quant_parameter_tensor_names()) {
        graph_.values[annotation.tensor_name()].annotations[entry.key()] = entry.value();
      }
    }
    for (const auto& entry : model_.metadata_props()) {
      if (!graph_.metadata.emplace(entry.key(), entry.value()).second)
        throw Error("two entries of the metadata are called " + quote_text(entry.key()));
    }
    name_nodes();
    place_certificates(graph_).take();
    return sorted(std::move(graph_));
  }

 private:
  void read_opsets() {
    for (const auto& import : model_.opset_import()) {
      // The ONNX library keeps versions in an int, which would take 2^32 + 1 for 1.
      if (!std::in_range<std::int32_t>(import.version()) || import.version() < 0) {
        throw Error("the file imports operator set " + std::to_string(import.version()) + " of " +
                    quote_text(import.domain()) + ", expected a version below 2147483648");
      }
      imports_[import.domain()] = import.version();
      std::int64_t& version = graph_.opsets[usual_domain(import.domain())];
      version = std::max(version, import.version());
    }
    // Files of the first IR versions import nothing.
    if (!graph_.opsets.contains(std::string(kOnnxDomain))) graph_.opsets[std::string(kOnnxDomain)] = 1;
    if (const std::int64_t found = graph_.opset(); found < 1 || found > newest_opset()) {
      throw Error("the file imports operator set " + std::to_string(found) + " of ONNX; supported are 1 to " +
                  std::to_string(newest_opset()));
    }
  }

  std::int64_t version_of(const std::string& domain_in_file, const std::string& domain) {
    if (domain == kOnnxDomain) return graph_.opset();
    if (const auto found = imports_.find(domain_in_file); found != imports_.end()) return found->second;
    const std::int64_t version = domain == kChannelsLastDomain ? graph_.opset() : 1;
    graph_.opsets.emplace(domain, version);
    return version;
  }

  void read_initializers(const onnx::GraphProto& from) {
    if (from.sparse_initializer_size() > 0) {
      throw Error("the graph has sparse initializers, the first of them " +
                  quote_text(from.sparse_initializer(0).values().name()) + "; only dense ones are supported");
    }
    for (const auto& proto : from.initializer()) {
      if (proto.name().empty()) throw Error("an initializer has no name");
      check_name(proto.name(), "initializer");
      if (!graph_.initializers.emplace(proto.name(), tensor_from(proto, folder_)).second) {
        throw Error("two initializers are called " + quote_text(proto.name()));
      }
    }
  }

  void read_value(const onnx::ValueInfoProto& proto, const char* what) {
    if (proto.name().empty()) throw Error("an " + std::string(what) + " has no name");
    check_name(proto.name(), what);
    Value& value = graph_.values[proto.name()];
    if (!proto.has_type()) return;
    if (!proto.type().has_tensor_type()) {
      if (proto.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) return;
      throw Error(std::string(what) + " " + quote_text(proto.name()) +
                  " is not a tensor; sequences, maps, optionals and sparse tensors are not supported");
    }
    const auto& tensor = proto.type().tensor_type();
    const auto type = element_type_of(tensor.elem_type());
    if (tensor.elem_type() != 0 && (!type || info(*type).bits == 0)) {
      throw Error(std::string(what) + " " + quote_text(proto.name()) + " holds elements of type " +
                  (type ? std::string(name_of(*type)) : "number " + std::to_string(tensor.elem_type())) +
                  ", expected numbers");
    }
    if (type) value.type = *type;
    if (!tensor.has_shape()) return;
    value.shape = shape_in(tensor.shape());
    for (const Dim& dim : *value.shape) check_name(dim.symbol, "dimension");
  }

  Node read_node(const onnx::NodeProto& proto) {
    Node node;
    node.name = proto.name();
    node.op = proto.op_type();
    check_name(node.name, "node");
    check_name(node.op, "operator");
    node.domain = usual_domain(proto.domain());
    if (node.domain == kOnnxDomain && is_qonnx_operator(node.op)) node.domain = kQonnxDomain;
    node.version = version_of(proto.domain(), node.domain);
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    for (const auto& names : {&node.inputs, &node.outputs}) {
      for (const std::string& name : *names) check_name(name, "value");
    }
    for (const auto& attribute : proto.attribute()) {
      if (!node.attributes.emplace(attribute.name(), read_attribute(node, attribute)).second) {
        throw Error(text_of(node) + " has two attributes " + quote_text(attribute.name()));
      }
      check_axes(node, attribute.name(), node.attributes.at(attribute.name()));
    }
    return node;
  }

  /// The library's inference makes as many sizes as such a number says.
  static void check_axes(const Node& node, const std::string& name, const Attribute& attribute) {
    if (name != "axis" && name != "axes" && name != "perm") return;
    std::vector<std::int64_t> axes;
    if (const auto* one = std::get_if<std::int64_t>(&attribute)) axes = {*one};
    if (const auto* all = std::get_if<std::vector<std::int64_t>>(&attribute)) axes = *all;
    for (const std::int64_t axis : axes) {
      if (axis >= -kMostAxes && axis <= kMostAxes) continue;
      throw Error(text_of(node) + ": attribute " + name + " is " + std::to_string(axis) +
                  "; tensors have at most " + std::to_string(kMostAxes) + " axes");
    }
  }

  Attribute read_attribute(const Node& node, const onnx::AttributeProto& proto) {
    switch (const auto type = type_of(proto)) {
      case onnx::AttributeProto::FLOAT: return proto.f();
      case onnx::AttributeProto::INT: return std::int64_t{proto.i()};
      case onnx::AttributeProto::STRING: return proto.s();
      case onnx::AttributeProto::TENSOR:
        if (proto.t().data_type() == onnx::TensorProto::STRING) return Opaque{"a tensor of strings"};
        try {
          return tensor_from(proto.t(), folder_);
        } catch (const Error& error) {
          throw Error(text_of(node) + ", attribute " + quote_text(proto.name()) + ": " + error.what());
        }
      case onnx::AttributeProto::FLOATS:
        return std::vector<float>(proto.floats().begin(), proto.floats().end());
      case onnx::AttributeProto::INTS:
        return std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
      case onnx::AttributeProto::STRINGS:
        return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
      default: return Opaque{opaque_kind(type)};
    }
  }

  void name_nodes() {
    std::set<std::string> taken;
    for (const Node& node : graph_.nodes) taken.insert(node.name);
    std::map<std::string, int> counts;
    for (Node& node : graph_.nodes) {
      if (!node.name.empty()) continue;
      do {
        node.name = node.op + "_" + std::to_string(counts[node.op]++);
      } while (!taken.insert(node.name).second);
    }
  }

  void refuse_twice(std::vector<std::string> names, const char* what) const {
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
      throw Error("two " + std::string(what) + "s are called " + quote_text(*twice));
    }
  }

  const onnx::ModelProto& model_;
  const OnnxDataFolder& folder_;
  std::map<std::string, std::int64_t> imports_;  ///< as the file spells the domains
  Graph graph_;
};

}  // namespace

Shape shape_in(const onnx::TensorShapeProto& proto) {
  Shape shape;
  for (const auto& dim : proto.dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      shape.emplace_back(dim.dim_value());
    } else if (dim.has_dim_param()) {
      shape.emplace_back(dim.dim_param());
    } else {
      shape.emplace_back();
    }
  }
  return shape;
}

Graph from_proto(const onnx::ModelProto& model, const OnnxDataFolder& folder) {
  return Reader(model, folder).go();
}

}  // namespace crumb::graph
