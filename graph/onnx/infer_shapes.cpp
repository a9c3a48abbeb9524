#include "graph/onnx/infer_shapes.h"

#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "graph/onnx/dims.h"
#include "graph/onnx/pool_shapes.h"
#include "graph/onnx/schemas.h"
#include "graph/onnx/shape_faults.h"
#include "graph/onnx/to_proto.h"

namespace crumb::graph {
namespace {

constexpr const char* kOpaqueDomain = "crumb.opaque";
constexpr std::int64_t kShapeArithmetic = 1024;  // elements of constants whose values shapes may depend on

Shape shape_in(const onnx::TensorShapeProto& proto) {
  Shape shape;
  for (const auto& dim : proto.dim()) shape.push_back(dim_of(dim));
  return shape;
}

void learn(const onnx::ValueInfoProto& proto, Graph& graph) {
  if (!proto.type().has_tensor_type()) return;
  const auto& tensor = proto.type().tensor_type();
  Value& value = graph.values[proto.name()];
  if (const auto type = element_type_of(tensor.elem_type())) value.type = *type;
  if (!tensor.has_shape()) return;
  Shape shape = shape_in(tensor.shape());
  // The file's own sizes fill in those that inference leaves open.
  if (value.shape && value.shape->size() == shape.size()) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (!shape[i].known() && (*value.shape)[i].known()) shape[i] = (*value.shape)[i];
    }
  }
  value.shape = std::move(shape);
}

/// Whether inference skips a node at which it fails, or reports it after all others.
enum class NodeErrors : int { kLeftAlone = 0, kNamed = 1 };

/// Whether inference follows the values of small constants, on which shapes may depend.
enum class Propagates : bool { kTypes, kValues };

/// Returns the input of ONNX's inference: large constants by type and shape only, without the file's claims
/// about values between.
onnx::ModelProto question_of(const Graph& graph) {
  register_qonnx_schemas();
  onnx::ModelProto model =
      to_proto(graph, {.most_elements = kShapeArithmetic, .keep_opaque = true, .quantized_as_inputs = true});
  model.mutable_graph()->clear_value_info();
  // Operators without their subgraph: ONNX's inference would miss the subgraph, and it skips unknown domains.
  bool is_any_opaque = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_opaque(graph.nodes[i])) continue;
    is_any_opaque = true;
    model.mutable_graph()->mutable_node(static_cast<int>(i))->set_domain(kOpaqueDomain);
  }
  if (is_any_opaque) {
    auto* opset = model.add_opset_import();
    opset->set_domain(kOpaqueDomain);
    opset->set_version(1);
  }
  return model;
}

/// Returns the named axes of a term of an Einsum's equation, "ij" or "i...j"; nothing where it is no term.
std::optional<std::string> labels_of(std::string term, bool& has_ellipsis) {
  const std::size_t dots = term.find("...");
  has_ellipsis = dots != std::string::npos;
  if (has_ellipsis) term.erase(dots, 3);
  const bool named =
      std::ranges::all_of(term, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  return named ? std::optional(term) : std::nullopt;
}

/// Whether the library can infer the shape of an Einsum safely: it trusts equations, takes every "..." for as
/// many axes as the first one's, and reads beyond a shape that has fewer.
bool is_sound_einsum(const onnx::InferenceContext& context) {
  const onnx::AttributeProto* equation = context.getAttribute("equation");
  if (!equation) return false;
  std::string text, known;
  std::ranges::copy_if(equation->s(), std::back_inserter(text), [](char c) { return c != ' '; });
  const std::size_t arrow = text.find("->");
  const std::string operands = text.substr(0, arrow);
  std::optional<std::ptrdiff_t> axes;  // of an ellipsis
  bool has_ellipsis = false;
  std::size_t input = 0;
  for (std::size_t begin = 0; begin <= operands.size(); ++input) {
    const std::size_t end = std::min(operands.find(',', begin), operands.size());
    const auto labels = labels_of(operands.substr(begin, end - begin), has_ellipsis);
    begin = end + 1;
    if (!labels || input >= context.getNumInputs() || !onnx::hasInputShape(context, input)) return false;
    known += *labels;
    const auto left =
        onnx::getInputShape(context, input).dim_size() - static_cast<std::ptrdiff_t>(labels->size());
    if (has_ellipsis ? left < 0 || axes.value_or(left) != left : left != 0) return false;
    if (has_ellipsis) axes = left;
  }
  if (input != context.getNumInputs()) return false;
  if (arrow == std::string::npos) return true;
  const auto made = labels_of(text.substr(arrow + 2), has_ellipsis);
  return made && (!has_ellipsis || axes) &&
         std::ranges::all_of(*made, [&](char c) { return known.find(c) != std::string::npos; });
}

/// ONNX's schemas with limits. None computes the values of a vector longer than any shape: the library
/// allocates each element, also of unknown values. None infers where the library would read beyond its
/// operands.
class BoundedSchemas : public onnx::ISchemaRegistry {
 public:
  // NOLINTNEXTLINE(google-default-arguments): as it is declared there
  const onnx::OpSchema* GetSchema(const std::string& name, int version,
                                  const std::string& domain = onnx::ONNX_DOMAIN) const override {
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Instance()->GetSchema(name, version, domain);
    if (!schema) schema = first_after(name, version, domain);
    if (!schema) return nullptr;
    const std::scoped_lock lock(mutex_);
    const auto [place, is_new] = bounded_.try_emplace(schema);
    if (is_new) place->second = std::make_unique<onnx::OpSchema>(bounded(*schema));
    return place->second.get();
  }

 private:
  /// A node may be of a later operator set than its graph (Node::version): the operator as it was when it
  /// came.
  static const onnx::OpSchema* first_after(const std::string& name, int version, const std::string& domain) {
    if (domain != onnx::ONNX_DOMAIN) return nullptr;
    const int last = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at(domain).second;
    const onnx::OpSchema* schema = nullptr;
    for (int later = version + 1; later <= last && !schema; ++later)
      schema = onnx::OpSchemaRegistry::Instance()->GetSchema(name, later, domain);
    return schema;
  }

  static bool is_long(const onnx::TypeProto* type) {
    if (!type || !type->has_tensor_type() || !type->tensor_type().has_shape()) return false;
    const auto& shape = type->tensor_type().shape();
    return shape.dim_size() == 1 && shape.dim(0).dim_value() > kShapeArithmetic;
  }

  static onnx::OpSchema bounded(const onnx::OpSchema& schema) {
    onnx::OpSchema made = schema;
    made.PartialDataPropagationFunction(
        [propagate = schema.GetDataPropagationFunction()](onnx::DataPropagationContext& context) {
          for (std::size_t i = 0; i < context.getNumInputs(); ++i)
            if (is_long(context.getInputType(i))) return;
          propagate(context);
        });
    if (schema.Name() == "Einsum" && schema.domain() == onnx::ONNX_DOMAIN) {
      made.TypeAndShapeInferenceFunction(
          [infer = schema.GetTypeAndShapeInferenceFunction()](onnx::InferenceContext& context) {
            if (is_sound_einsum(context)) return infer(context);
            onnx::propagateElemTypeFromInputToOutput(context, 0, 0);
          });
    }
    const std::string& op = schema.Name();
    if ((op == "MaxPool" || op == "AveragePool" || op == "LpPool") && schema.domain() == onnx::ONNX_DOMAIN) {
      made.TypeAndShapeInferenceFunction(
          [infer = schema.GetTypeAndShapeInferenceFunction()](onnx::InferenceContext& context) {
            infer(context);
            count_windows_that_start_inside(context);
          });
    }
    if ((op == "Resize" || (op == "Upsample" && schema.SinceVersion() >= 9)) &&
        schema.domain() == onnx::ONNX_DOMAIN) {
      made.TypeAndShapeInferenceFunction(
          [infer = schema.GetTypeAndShapeInferenceFunction(),
           scales = std::size_t{schema.SinceVersion() >= 11 ? 2U : 1U}](onnx::InferenceContext& context) {
            infer(context);
            count_resized_elements(context, scales);
          });
    }
    return made;
  }

  mutable std::mutex mutex_;
  mutable std::map<const onnx::OpSchema*, std::unique_ptr<onnx::OpSchema>> bounded_;
};

/// Returns ONNX's complaint; empty where inference succeeded. ONNX throws exceptions derived from
/// std::exception.
std::string infer(onnx::ModelProto& model, NodeErrors errors, Propagates values = Propagates::kValues) {
  static const BoundedSchemas schemas;
  try {
    onnx::shape_inference::InferShapes(
        model, &schemas,
        onnx::ShapeInferenceOptions(/*check_type_val=*/false, static_cast<int>(errors),
                                    /*data_prop=*/values == Propagates::kValues));
  } catch (const std::exception& error) {
    return *error.what() ? error.what() : "shape inference failed";
  }
  return "";
}

}  // namespace

Graph infer_shapes(Graph graph) {
  onnx::ModelProto model = question_of(graph);
  if (!infer(model, NodeErrors::kLeftAlone).empty()) return graph;  // shape_faults() says why
  for (const auto& value : model.graph().value_info()) learn(value, graph);
  for (const auto& value : model.graph().output()) learn(value, graph);
  return graph;
}

std::string shape_faults(const Graph& graph) {
  onnx::ModelProto model = question_of(graph);
  const std::string said = infer(model, NodeErrors::kNamed);
  if (said.empty()) return said;
  // ONNX's arithmetic on values forgets axes that Unsqueeze adds, and then finds faults where none are.
  model = question_of(graph);
  return infer(model, NodeErrors::kNamed, Propagates::kTypes);
}

}  // namespace crumb::graph
