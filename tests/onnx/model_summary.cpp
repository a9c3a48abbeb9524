#include "tests/onnx/model_summary.h"

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <stdexcept>

namespace crumb::testing {

ModelSummary summarize_onnx(const std::string& bytes) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) throw std::runtime_error("not an ONNX model");
  onnx::checker::check_model(model);
  onnx::shape_inference::InferShapes(model);

  ModelSummary summary;
  for (const auto& node : model.graph().node()) summary.operators.push_back(node.op_type());
  for (const auto& dimension : model.graph().output(0).type().tensor_type().shape().dim()) {
    summary.output_shape.push_back(dimension.has_dim_value() ? dimension.dim_value() : -1);
  }
  return summary;
}

std::string tiny_onnx_model(const std::string& op_type) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto* graph = model.mutable_graph();
  graph->set_name("tiny");
  auto* node = graph->add_node();
  node->set_op_type(op_type);
  node->add_input("x");
  node->add_output("y");
  auto* input = graph->add_input();
  input->set_name("x");
  auto* tensor = input->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx::TensorProto::FLOAT);
  tensor->mutable_shape()->add_dim()->set_dim_value(2);
  tensor->mutable_shape()->add_dim()->set_dim_value(3);
  auto* output = graph->add_output();
  output->set_name("y");
  auto* result = output->mutable_type()->mutable_tensor_type();
  result->set_elem_type(onnx::TensorProto::FLOAT);
  for (int axis = 0; axis < 2; ++axis) result->mutable_shape()->add_dim();  // of unknown extent
  return model.SerializeAsString();
}

}  // namespace crumb::testing
