// Questions to the ONNX library's table of operators.
#include <onnx/defs/schema.h>

#include "models/graph/onnx/schemas.h"

namespace crumb::graph {
namespace {

const onnx::OpSchema* schema_of(const std::string& op, std::int64_t opset) {
  return onnx::OpSchemaRegistry::Schema(op, static_cast<int>(opset), "");
}

}  // namespace

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

}  // namespace crumb::graph
