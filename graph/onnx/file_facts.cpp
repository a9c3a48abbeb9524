#include "graph/onnx/file_facts.h"

#include <onnx/onnx_pb.h>

#include <limits>
#include <set>

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "graph/onnx/dims.h"

namespace crumb::graph {
namespace {

Value stated(const onnx::ValueInfoProto& proto) {
  Value value;
  if (!proto.type().has_tensor_type()) return value;
  const auto& tensor = proto.type().tensor_type();
  if (const auto type = element_type_of(tensor.elem_type())) value.type = *type;
  if (!tensor.has_shape()) return value;
  value.shape.emplace();
  for (const auto& dim : tensor.shape().dim()) value.shape->push_back(dim_of(dim));
  return value;
}

}  // namespace

FileFacts file_facts(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path).take();
  onnx::ModelProto model;
  if (file.bytes().size() > std::numeric_limits<int>::max() ||
      !model.ParseFromArray(file.bytes().data(), static_cast<int>(file.bytes().size()))) {
    throw Error(quote_text(path.string()) + ": not an ONNX model, or a damaged one");
  }
  const onnx::GraphProto& graph = model.graph();
  FileFacts facts;
  facts.ir_version = model.ir_version();
  for (const auto& import : model.opset_import()) {
    facts.imports.push_back({import.domain(), import.version()});
  }
  for (const auto& node : graph.node()) {
    facts.nodes.push_back({node.name(),
                           node.op_type(),
                           node.domain(),
                           {node.input().begin(), node.input().end()},
                           {node.output().begin(), node.output().end()}});
  }
  for (const auto& function : model.functions()) facts.functions.push_back(function.name());
  std::set<std::string> initializers;
  for (const auto& initializer : graph.initializer()) initializers.insert(initializer.name());
  facts.initializers.assign(initializers.begin(), initializers.end());
  for (const auto& input : graph.input()) {
    if (initializers.contains(input.name())) facts.both.push_back(input.name());
  }
  for (const auto* list : {&graph.input(), &graph.output(), &graph.value_info()}) {
    for (const auto& value : *list) facts.stated[value.name()] = stated(value);
  }
  return facts;
}

}  // namespace crumb::graph
