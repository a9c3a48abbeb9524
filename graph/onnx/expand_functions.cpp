#include "graph/onnx/expand_functions.h"

#include <onnx/inliner/inliner.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/schemas.h"
#include "graph/onnx/to_proto.h"
#include "graph/onnx/wire/read_model.h"

namespace crumb::graph {
namespace {

constexpr int kMostRounds = 8;                 // depth of bodies within bodies
constexpr std::int64_t kSmallConstant = 1024;  // elements; bodies need not see larger constants

/// Whether a definition by simpler operators exists.
bool has_body(const Node& node) {
  const auto* schema = onnx::OpSchemaRegistry::Schema(node.op, static_cast<int>(node.version), node.domain);
  return schema && (schema->HasFunction() || schema->HasContextDependentFunction());
}

/// The inliner looks up the types of a body's inputs, and finds only those of values.
void state_initializers(onnx::GraphProto& graph) {
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    onnx::ValueInfoProto& value = *graph.add_value_info();
    value.set_name(tensor.name());
    auto& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(tensor.data_type());
    for (const std::int64_t size : tensor.dims()) type.mutable_shape()->add_dim()->set_dim_value(size);
  }
}

/// A body refers to attributes of its node, and the inliner drops those that the node leaves at their
/// defaults.
void state_defaults(onnx::ModelProto& model, const std::set<std::pair<std::string, std::string>>& wanted) {
  std::map<std::string, int> versions;
  for (const auto& opset : model.opset_import()) versions[opset.domain()] = static_cast<int>(opset.version());
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    if (!wanted.contains({node.domain(), node.op_type()})) continue;
    const auto* schema =
        onnx::OpSchemaRegistry::Schema(node.op_type(), versions[node.domain()], node.domain());
    if (!schema) continue;
    for (const auto& entry : schema->attributes()) {
      const onnx::AttributeProto& otherwise = entry.second.default_value;
      const auto is_it = [&](const onnx::AttributeProto& own) { return own.name() == entry.first; };
      const bool has_default = otherwise.type() != onnx::AttributeProto::UNDEFINED;
      if (!has_default || std::ranges::any_of(node.attribute(), is_it)) continue;
      onnx::AttributeProto& stated = *node.add_attribute();
      stated = otherwise;
      stated.set_name(entry.first);
    }
  }
}

}  // namespace

Graph expand_functions(Graph graph, const Engine& engine) {
  return expand_functions(std::move(graph), [&](const Node& node) { return !engine.knows(node); });
}

Graph expand_functions(Graph graph, const std::function<bool(const Node&)>& is_wanted) {
  register_qonnx_schemas();
  for (int round = 0; round < kMostRounds; ++round) {
    std::set<std::pair<std::string, std::string>> wanted;
    for (const Node& node : graph.nodes) {
      if (!is_opaque(node) && is_wanted(node) && has_body(node)) wanted.emplace(node.domain, node.op);
    }
    if (wanted.empty()) break;
    // Inputs replace large constants, so that these are not copied.
    graph = infer_shapes(std::move(graph));
    onnx::ModelProto model =
        to_proto(graph, {.most_elements = kSmallConstant, .keep_opaque = true, .quantized_as_inputs = true});
    state_initializers(*model.mutable_graph());
    state_defaults(model, wanted);
    try {
      const auto set =
          onnx::inliner::FunctionIdSet::Create(onnx::inliner::FunctionIdVector(wanted.begin(), wanted.end()));
      onnx::inliner::InlineSelectedFunctions(model, *set, nullptr);
    } catch (const std::exception&) {
      break;  // the code that executes the graph names the nodes
    }
    std::string bytes;
    if (!model.SerializeToString(&bytes)) break;
    Graph expanded = read_model(std::as_bytes(std::span(bytes)), {});
    const auto is_found = [&](const Node& node) { return wanted.contains({node.domain, node.op}); };
    if (std::ranges::count_if(expanded.nodes, is_found) >= std::ranges::count_if(graph.nodes, is_found))
      break;
    expanded.inputs = graph.inputs;
    for (const auto& [name, tensor] : graph.initializers)
      expanded.initializers.insert_or_assign(name, tensor);
    expanded.quantized = std::move(graph.quantized);
    graph = std::move(expanded);
  }
  return graph;
}

}  // namespace crumb::graph
