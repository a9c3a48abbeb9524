#include "models/graph/onnx/schemas.h"

#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <mutex>
#include <string>

#include "models/graph/graph.h"

namespace crumb::graph {
namespace {

using onnx::InferenceContext;
using onnx::OpSchema;

constexpr int kNewestQonnx = 2;

/// The output is like the first input, in float32.
void like_first_input(InferenceContext& context) {
  onnx::updateOutputElemType(context, 0, onnx::TensorProto::FLOAT);
  if (onnx::hasInputShape(context, 0)) onnx::propagateShapeFromInputToOutput(context, 0, 0);
}

OpSchema quantizer(const char* op, int since, std::initializer_list<const char*> inputs) {
  OpSchema schema(op, "models/graph/onnx/schemas.cpp", __LINE__);
  schema.SetDomain(std::string(kQonnxDomain)).SinceVersion(since);
  int i = 0;
  for (const char* input : inputs) schema.Input(i++, input, "", "tensor(float)");
  schema.Output(0, "Y", "", "tensor(float)");
  schema.AllowUncheckedAttributes();
  schema.TypeAndShapeInferenceFunction(like_first_input);
  return schema;
}

}  // namespace

std::int64_t newest_opset() {
  return onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("").second;
}

void register_qonnx_schemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::string domain(kQonnxDomain);
    auto& domains = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
    domains.AddDomainToVersion(domain, 1, kNewestQonnx, kNewestQonnx);
    for (const OpSchema& schema : {
             quantizer("Quant", 1, {"X", "scale", "zeropt", "bitwidth"}),
             quantizer("IntQuant", 1, {"X", "scale", "zeropt", "bitwidth"}),
             quantizer("BipolarQuant", 1, {"X", "scale"}),
             quantizer("Trunc", 1, {"X", "scale", "zeropt", "in_bitwidth", "out_bitwidth"}),
             quantizer("Trunc", 2, {"X", "scale", "zeropt", "in_bitwidth", "out_scale", "out_bitwidth"}),
             quantizer("FloatQuant", 1,
                       {"X", "scale", "exponent_bitwidth", "mantissa_bitwidth", "exponent_bias", "max_val"}),
             quantizer("MultiThreshold", 1, {"X", "thresholds"}),
         }) {
      onnx::RegisterSchema(schema, 0, false, true);
    }
  });
}

}  // namespace crumb::graph
