#include "graph/onnx/wire/read_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/files/text.h"
#include "base/within.h"
#include "graph/certificate.h"
#include "graph/inline_branches.h"
#include "graph/onnx/wire/domains.h"
#include "graph/onnx/wire/named_dim.h"
#include "graph/onnx/wire/tensor_in.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kMostAxes = 64;
constexpr int kMostNested = 64;  // graphs within graphs

void check_name(std::string_view name, const char* what) {
  if (!is_utf8(name)) throw Error(std::string(what) + " " + quote_text(name) + " is not UTF-8");
}

/// Returns the kind of an attribute that a graph cannot hold.
const char* opaque_kind(OnnxAttributeType type) {
  switch (type) {
    case OnnxAttributeType::kGraph:
    case OnnxAttributeType::kGraphs: return "a graph";
    case OnnxAttributeType::kSparseTensor:
    case OnnxAttributeType::kSparseTensors: return "a sparse tensor";
    case OnnxAttributeType::kTensors: return "a list of tensors";
    case OnnxAttributeType::kType:
    case OnnxAttributeType::kTypes: return "a type";
    default: return "of an unknown kind";
  }
}

std::vector<std::string> texts_of(const std::vector<std::string_view>& texts) {
  return {texts.begin(), texts.end()};
}

Shape shape_of(const std::vector<OnnxDim>& dims) {
  Shape shape;
  for (const OnnxDim& dim : dims) {
    if (dim.size && *dim.size >= 0) {
      shape.emplace_back(*dim.size);
    } else if (dim.name) {
      shape.push_back(named_dim(*dim.name));
    } else {
      shape.emplace_back();
    }
  }
  return shape;
}

class Reader {
 public:
  Reader(std::span<const std::byte> file, const OnnxModel& model, const OnnxDataFolder& folder,
         std::shared_ptr<const InputFile> source)
      : file_(file), model_(model), folder_(folder), source_(std::move(source)) {}

  Graph go() {
    if (model_.has_training) throw Error("the file holds graphs for training, which are not supported");
    if (model_.functions > 0)
      throw Error("the file defines functions of its own, which are not supported here");
    read_opsets();
    Graph read = read_graph(model_.graph, 0);
    read.opsets.merge(graph_.opsets);
    for (const OnnxEntry& entry : model_.metadata) {
      if (!read.metadata.emplace(entry.key, entry.value).second)
        throw Error("two entries of the metadata are called " + quote_text(entry.key));
    }
    graph_ = std::move(read);
    name_nodes();
    place_certificates(graph_).take();
    return sorted(std::move(graph_));
  }

 private:
  /// A graph, or one within a node's attribute: without operator sets and metadata, and not sorted.
  Graph read_graph(const OnnxGraph& from, int depth) {
    Graph read{.name = std::string(from.name)};
    read_initializers(from, read);
    for (const OnnxValueInfo& input : from.inputs) {
      const std::string name = read_value(input, "input", read);
      if (!read.initializers.contains(name)) read.inputs.push_back(name);
    }
    refuse_twice(read.inputs, "input");
    for (const OnnxValueInfo& output : from.outputs)
      read.outputs.push_back(read_value(output, "output", read));
    for (const OnnxValueInfo& value : from.values) read_value(value, "value", read);
    for (const OnnxNode& node : from.nodes) read.nodes.push_back(read_node(node, depth));
    for (const OnnxAnnotation& annotation : from.annotations) {
      for (const OnnxEntry& entry : annotation.entries) {
        read.values[std::string(annotation.tensor)].annotations[std::string(entry.key)] = entry.value;
      }
    }
    return inline_branches(std::move(read));
  }

  void read_opsets() {
    for (const auto& [domain, version] : model_.opsets) {
      // The ONNX library stores versions in an int, which would take 2^32 + 1 for 1.
      if (!std::in_range<std::int32_t>(version) || version < 0) {
        throw Error("the file imports operator set " + std::to_string(version) + " of " + quote_text(domain) +
                    ", expected a version below 2147483648");
      }
      imports_[std::string(domain)] = version;
      std::int64_t& latest = graph_.opsets[usual_domain(domain)];
      latest = std::max(latest, version);
    }
    // Files of the first IR versions import nothing.
    if (!graph_.opsets.contains(std::string(kOnnxDomain))) graph_.opsets[std::string(kOnnxDomain)] = 1;
    if (const std::int64_t found = graph_.opset(); found < 1 || found > kNewestOpset) {
      throw Error("the file imports operator set " + std::to_string(found) + " of ONNX; supported are 1 to " +
                  std::to_string(kNewestOpset));
    }
  }

  std::int64_t version_of(std::string_view domain_in_file, const std::string& domain) {
    if (domain == kOnnxDomain) return graph_.opset();
    if (const auto found = imports_.find(domain_in_file); found != imports_.end()) return found->second;
    const std::int64_t version = domain == kChannelsLastDomain ? graph_.opset() : 1;
    graph_.opsets.emplace(domain, version);
    return version;
  }

  void read_initializers(const OnnxGraph& from, Graph& into) const {
    if (!from.sparse_initializers.empty()) throw Error(sparse_text(from.sparse_initializers.front()));
    for (const WireExtent& message : from.initializers) {
      const OnnxTensor proto = parse_onnx_tensor(file_, message).take();
      if (proto.name.empty()) throw Error("an initializer has no name");
      check_name(proto.name, "initializer");
      if (!into.initializers.emplace(proto.name, tensor_in(file_, message, proto, folder_, source_)).second) {
        throw Error("two initializers are called " + quote_text(proto.name));
      }
    }
  }

  std::string sparse_text(const WireExtent& message) const {
    std::string_view name;
    WireReader reader(file_, message);
    for (WireField field; reader.next(field);) {
      if (field.is(1)) name = parse_onnx_tensor(file_, field.payload).take().name;
    }
    return "the graph has sparse initializers, the first of them " + quote_text(name) +
           "; only dense ones are supported";
  }

  static std::string read_value(const OnnxValueInfo& info_of_file, const char* what, Graph& into) {
    std::string name(info_of_file.name);
    if (name.empty()) throw Error("an " + std::string(what) + " has no name");
    check_name(name, what);
    Value& value = into.values[name];
    if (info_of_file.kind == OnnxValueInfo::Kind::kNone) return name;
    if (info_of_file.kind == OnnxValueInfo::Kind::kOther) {
      throw Error(std::string(what) + " " + quote_text(name) +
                  " is not a tensor; sequences, maps, optionals and sparse tensors are not supported");
    }
    const std::int32_t number = info_of_file.element_type;
    const auto type = element_type_of(number);
    if (number != 0 && (!type || info(*type).bits == 0)) {
      throw Error(std::string(what) + " " + quote_text(name) + " holds elements of type " +
                  (type ? std::string(name_of(*type)) : "number " + std::to_string(number)) +
                  ", expected numbers");
    }
    if (type) value.type = *type;
    if (!info_of_file.shape) return name;
    value.shape = shape_of(*info_of_file.shape);
    for (const Dim& dim : *value.shape) check_name(dim.symbol, "dimension");
    return name;
  }

  Node read_node(const OnnxNode& from, int depth) {
    Node node;
    node.name = from.name;
    node.op = from.op;
    check_name(node.name, "node");
    check_name(node.op, "operator");
    node.domain = usual_domain(from.domain);
    if (node.domain == kOnnxDomain && is_qonnx_operator(node.op)) node.domain = kQonnxDomain;
    node.version = version_of(from.domain, node.domain);
    node.inputs = texts_of(from.inputs);
    node.outputs = texts_of(from.outputs);
    for (const auto& names : {&node.inputs, &node.outputs}) {
      for (const std::string& name : *names) check_name(name, "value");
    }
    for (const OnnxAttribute& attribute : from.attributes) {
      const std::string name(attribute.name);
      if (!node.attributes.emplace(name, read_attribute(node, attribute, depth)).second) {
        throw Error(text_of(node) + " has two attributes " + quote_text(name));
      }
      check_axes(node, name, node.attributes.at(name));
    }
    return node;
  }

  /// The library's inference would create as many sizes as such a number says.
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

  /// A graph is read where it belongs to an operator that runs graphs.
  Attribute read_attribute(const Node& node, const OnnxAttribute& from, int depth) {
    switch (from.type) {
      case OnnxAttributeType::kGraph:
        if (node.is("If") || node.is("Loop") || node.is("Scan")) return read_body(node, from, depth + 1);
        return Opaque{opaque_kind(from.type)};
      case OnnxAttributeType::kFloat: return from.number;
      case OnnxAttributeType::kInt: return from.integer;
      case OnnxAttributeType::kString: return std::string(from.text);
      case OnnxAttributeType::kTensor: return read_tensor_attribute(node, from);
      case OnnxAttributeType::kFloats: return from.numbers;
      case OnnxAttributeType::kInts: return from.integers;
      case OnnxAttributeType::kStrings: return texts_of(from.texts);
      default: return Opaque{opaque_kind(from.type)};
    }
  }

  Opaque read_body(const Node& node, const OnnxAttribute& from, int depth) {
    if (depth > kMostNested)
      throw Error(text_of(node) + ": graphs are nested more than " + std::to_string(kMostNested) + " deep");
    const Result<OnnxGraph> body = parse_onnx_graph(file_, from.graph);
    if (!body.ok())
      throw Error(text_of(node) + ", attribute " + quote_text(from.name) + ": " + body.failure().message);
    return {.what = opaque_kind(from.type),
            .body = std::make_shared<const Graph>(read_graph(body.value(), depth))};
  }

  Attribute read_tensor_attribute(const Node& node, const OnnxAttribute& from) const {
    try {
      const OnnxTensor proto = parse_onnx_tensor(file_, from.tensor).take();
      if (element_type_of(proto.data_type) == ElementType::kString) return Opaque{"a tensor of strings"};
      return tensor_in(file_, from.tensor, proto, folder_, source_);
    } catch (const Error& error) {
      throw within_file(text_of(node) + ", attribute " + quote_text(from.name), error);
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

  std::span<const std::byte> file_;
  const OnnxModel& model_;
  const OnnxDataFolder& folder_;
  const std::shared_ptr<const InputFile> source_;
  std::map<std::string, std::int64_t, std::less<>> imports_;  ///< by the file's names of domains
  Graph graph_;  ///< its operator sets, while the others are read
};

}  // namespace

Graph read_model(std::span<const std::byte> file, const OnnxDataFolder& folder) {
  const Result<OnnxModel> model = parse_onnx_model(file);
  if (!model.ok()) throw Error("not an ONNX model, or a damaged one: " + model.failure().message);
  return read_model(file, model.value(), folder);
}

Graph read_model(std::span<const std::byte> file, const OnnxModel& model, const OnnxDataFolder& folder,
                 std::shared_ptr<const InputFile> source) {
  return Reader(file, model, folder, std::move(source)).go();
}

NamedTensor read_tensor(std::span<const std::byte> file) {
  const WireExtent whole{0, file.size()};
  const Result<OnnxTensor> proto = parse_onnx_tensor(file, whole);
  if (!proto.ok()) throw Error("not a TensorProto, or a damaged one: " + proto.failure().message);
  return {std::string(proto.value().name), tensor_in(file, whole, proto.value(), {})};
}

}  // namespace crumb::graph
