#include "graph/facts/usual_types.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/files/text.h"
#include "graph/datatypes.h"
#include "graph/operator_traits.h"
#include "graph/qonnx/quant_arithmetic.h"

namespace crumb::graph {
namespace {

class UsualTypes {
 public:
  UsualTypes(const Graph& graph, const ConstantValues& constants) : graph_(graph), constants_(constants) {}

  std::map<std::string, DataType> run() {
    for (const auto& [name, tensor] : graph_.initializers) types_[name] = known(name, tensor.type());
    for (const std::string& name : graph_.inputs) types_[name] = known(name, element_type(name));
    for (const Node& node : graph_.nodes) {
      for (const std::string& value : node.outputs) {
        if (!value.empty()) types_[value] = made_by(node, value);
      }
    }
    return std::move(types_);
  }

 private:
  ElementType element_type(const std::string& name) const {
    const Value* value = graph_.find(name);
    return value ? value->type : ElementType::kUnknown;
  }

  DataType known(const std::string& name, ElementType type) const {
    return annotated_type(graph_, name).value_or(usual_data_type(type));
  }

  DataType in(const Node& node, std::size_t i) const {
    if (!node.has_input(i)) return {};
    const auto found = types_.find(node.inputs[i]);
    return found == types_.end() ? DataType() : found->second;
  }

  DataType otherwise(const std::string& value) const {
    return annotated_type(graph_, value).value_or(DataType());
  }

  DataType made_by(const Node& node, const std::string& value) const {
    if (node.domain == kQonnxDomain) return value == node.outputs[0] ? by_qonnx(node, value) : DataType();
    if (node.domain == kChannelsLastDomain) return in(node, 0);
    if (node.domain != kOnnxDomain) return otherwise(value);
    const std::string& op = node.op;
    if (op == "Sign") return DataType::bipolar();
    if (is_any(node, trait::kTypeOfOperands)) return product(node, value);
    if (op == "Resize" || op == "Upsample")
      return node.text_or("mode", "nearest") == "nearest" ? in(node, 0) : otherwise(value);
    if (op == "QuantizeLinear") return container(node, value);
    if (op == "DequantizeLinear") {
      const ElementType type = node.has_input(0) ? element_type(node.inputs[0]) : ElementType::kUnknown;
      return is_integer(type) ? DataType::scaled(static_cast<int>(info(type).bits)) : DataType();
    }
    return is_any(node, trait::kKeepsType) ? in(node, 0) : otherwise(value);
  }

  DataType product(const Node& node, const std::string& value) const {
    std::vector<DataType> operands;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) operands.push_back(in(node, i));
    const DataType type = type_of_product(operands, node.op == "Sub");
    const bool any_float = std::ranges::any_of(operands, &DataType::is_float);
    return type.is_float() && !any_float ? otherwise(value) : type;
  }

  std::optional<ConstantValue> parameter(const Node& node, std::size_t i) const {
    return node.has_input(i) ? constants_.find(node.inputs[i]) : std::nullopt;
  }

  DataType by_qonnx(const Node& node, const std::string& value) const {
    const std::string& op = node.op;
    if (op == "Quant" || op == "IntQuant") return integer_quantizer(node);
    if (op == "BipolarQuant") {
      const auto scale = parameter(node, 1);
      return scale && scale->all_are(1) ? DataType::bipolar() : DataType();
    }
    if (op == "FloatQuant") return float_quantizer(node);
    if (op == "MultiThreshold") return thresholds(node);
    if (op == "XnorPopcountMatMul") return DataType::integer(32, false);
    if (op == "Im2Col" || op == "MaxPoolNHWC") return in(node, 0);
    if (op == "QuantAvgPool2d") {
      const std::int64_t bits = node.int_or("obits", 32);
      if (bits < 1 || bits > DataType::kMostBits) return {};
      return DataType::integer(static_cast<int>(bits), node.int_or("signed", 0) != 0);
    }
    return op == "Trunc" ? DataType() : otherwise(value);
  }

  DataType integer_quantizer(const Node& node) const {
    const auto scale = parameter(node, 1), zero = parameter(node, 2), width = parameter(node, 3);
    if (!width || width->values.size() != 1 || !scale || !zero || !width->shape.empty()) return {};
    const double bits = width->values[0];
    if (!(bits > 0 && bits <= DataType::kMostBits) || std::trunc(bits) != bits || !zero->all_are(0))
      return {};
    if (!scale->all_are(1)) return DataType::scaled(static_cast<int>(bits));
    const bool is_signed = node.int_or("signed", 1) != 0;
    return bits == 1 && is_signed ? DataType::bipolar()
                                  : DataType::integer(static_cast<int>(bits), is_signed);
  }

  DataType float_quantizer(const Node& node) const {
    const auto scale = parameter(node, 1);
    std::array<int, 3> fields{};
    for (std::size_t i = 0; i < 3; ++i) {
      const auto field = parameter(node, i + 2);
      if (!field || field->values.size() != 1 || !field->shape.empty()) return {};
      const double number = field->values[0];
      if (std::trunc(number) != number || std::fabs(number) > 1000) return {};
      fields[i] = static_cast<int>(number);
    }
    if (fields[0] < 1 || fields[0] > 8 || fields[1] < 0 || fields[1] > 23) return {};
    return scale && scale->all_are(1) ? DataType::floating(fields[0], fields[1], fields[2]) : DataType();
  }

  static DataType thresholds(const Node& node) {
    for (const char* name : {"out_scale", "out_bias"}) {
      const float number = node.float_or(name, 0);
      if (std::trunc(number) != number) return {};
    }
    const auto type = DataType::parse(node.text_or("out_dtype", "FLOAT32"));
    return Result<DataType>(type).take(text_of(node) + ": out_dtype");
  }

  DataType container(const Node& node, const std::string& value) const {
    ElementType type = element_type(value);
    if (!is_integer(type) && node.has_input(2)) type = element_type(node.inputs[2]);
    return is_integer(type) ? exact_data_type(type) : DataType();
  }

  const Graph& graph_;
  const ConstantValues& constants_;
  std::map<std::string, DataType> types_;
};

}  // namespace

bool is_scaled_integer(const DataType& type) {
  return type.is_integer() || type.is_fixed_point() || type.is_scaled();
}

std::optional<DataType> annotated_type(const Graph& graph, const std::string& value) {
  const Value* known = graph.find(value);
  if (!known) return {};
  const auto found = known->annotations.find(kDatatypeAnnotation);
  if (found == known->annotations.end()) return {};
  return DataType::parse(found->second).take("the annotation of value " + quote_text(value));
}

DataType type_of_product(std::span<const DataType> operands, bool subtracts) {
  const bool is_signed = subtracts || std::ranges::any_of(operands, &DataType::is_signed);
  if (std::ranges::all_of(operands, &DataType::is_integer)) return DataType::integer(32, is_signed);
  return std::ranges::all_of(operands, is_scaled_integer) ? DataType::scaled(32) : DataType();
}

std::map<std::string, DataType> usual_types(const Graph& graph, const ConstantValues& constants) {
  return UsualTypes(graph, constants).run();
}

}  // namespace crumb::graph
