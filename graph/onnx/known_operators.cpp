// Queries of the ONNX library's table of operators.
#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>

#include <algorithm>

#include "graph/onnx/schemas.h"

namespace crumb::graph {
namespace {

const onnx::OpSchema* schema_of(const std::string& op, std::int64_t opset) {
  return onnx::OpSchemaRegistry::Schema(op, static_cast<int>(opset), "");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> standard_operators() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas()) {
    all.emplace_back(schema.domain() == "ai.onnx" ? "" : schema.domain(), schema.Name());
  }
  return all;
}

std::optional<std::int64_t> since_version(const std::string& op, std::int64_t opset) {
  const onnx::OpSchema* schema = schema_of(op, opset);
  if (!schema || schema->Deprecated()) return {};
  return schema->SinceVersion();
}

bool schema_has_attribute(const std::string& op, std::int64_t opset, const std::string& attribute) {
  const onnx::OpSchema* schema = schema_of(op, opset);
  return schema && schema->attributes().contains(attribute);
}

std::size_t most_inputs(const std::string& op, std::int64_t opset) {
  const onnx::OpSchema* schema = schema_of(op, opset);
  return schema ? static_cast<std::size_t>(schema->max_input()) : 0;
}

std::size_t least_inputs(const std::string& op, std::int64_t opset) {
  const onnx::OpSchema* schema = schema_of(op, opset);
  return schema ? static_cast<std::size_t>(schema->min_input()) : 0;
}

std::optional<Attribute> default_attribute(const std::string& op, std::int64_t opset,
                                           const std::string& attribute) {
  const onnx::OpSchema* schema = schema_of(op, opset);
  if (!schema) return {};
  const auto found = schema->attributes().find(attribute);
  if (found == schema->attributes().end()) return {};
  const onnx::AttributeProto& value = found->second.default_value;
  switch (value.type()) {
    case onnx::AttributeProto::INT: return std::int64_t{value.i()};
    case onnx::AttributeProto::FLOAT: return value.f();
    case onnx::AttributeProto::STRING: return value.s();
    default: return {};
  }
}

bool schema_takes(const std::string& op, std::int64_t opset, Side side, std::size_t i, ElementType type) {
  const onnx::OpSchema* schema = schema_of(op, opset);
  if (!schema || type == ElementType::kUnknown) return true;
  const auto& all = side == Side::kInput ? schema->inputs() : schema->outputs();
  if (all.empty()) return true;
  if (i >= all.size() && all.back().GetOption() != onnx::OpSchema::Variadic) return true;
  onnx::TypeProto proto;
  proto.mutable_tensor_type()->set_elem_type(static_cast<int>(type));
  return all[std::min(i, all.size() - 1)].GetTypes().contains(onnx::Utils::DataTypeUtils::ToType(proto));
}

}  // namespace crumb::graph
