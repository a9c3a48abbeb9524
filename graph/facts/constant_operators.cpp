#include "graph/facts/constant_operators.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "graph/edit.h"
#include "graph/operator_traits.h"
#include "graph/strided_index.h"

namespace crumb::graph {
namespace {

void forget_levels(ConstantValue& value) {
  value.levels.clear();
  value.scale.clear();
  value.scale_shape.clear();
}

MadeConstant transposed(const Node& node, const ConstantValue& x) {
  std::vector<std::int64_t> reversed(x.shape.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const auto perm = node.ints_or("perm", reversed);
  if (!is_permutation(perm, x.shape.size())) return {};
  ConstantValue made{.wide = x.wide, .whole = x.whole};
  made.shape = permuted_shape(x.shape, perm);
  made.values = permuted(x.values, x.shape, perm);
  if (x.levels.empty()) return made;
  made.levels = permuted(x.levels, x.shape, perm);
  if (x.scale.size() == 1) {
    made.scale = x.scale;
  } else {
    std::vector<std::int64_t> full(x.shape.size() - x.scale_shape.size(), 1);
    full.insert(full.end(), x.scale_shape.begin(), x.scale_shape.end());
    made.scale = permuted(x.scale, full, perm);
    made.scale_shape = permuted_shape(full, perm);
  }
  return made;
}

MadeConstant reshaped(const Graph& graph, const Node& node, const ConstantValue& x) {
  const Value* known = graph.find(node.outputs[0]);
  if (!known || !known->is_static()) return {};
  ConstantValue made = x;
  made.shape.clear();
  for (const Dim& dim : *known->shape) made.shape.push_back(dim.size);
  const auto count = count_elements(made.shape);
  if (!count.ok() || count.value() != static_cast<std::int64_t>(x.values.size())) return {};
  if (made.scale.size() == 1) made.scale_shape.clear();
  if (made.scale.size() > 1) forget_levels(made);
  return made;
}

/// Whether a Dropout does inference: an attribute says so before version 7, an input from 12 on.
bool drops_nothing(const Node& node, const ConstantInputs& in) {
  if (node.version < 7) return node.int_or("is_test", 0) != 0;
  return in.size() < 3 || !in[2] || in[2]->values == std::vector<double>{0};
}

/// Returns the gathered elements of a vector.
MadeConstant gathered(const Node& node, const ConstantValue& x, const ConstantValue& at) {
  if (x.shape.size() != 1 || node.int_or("axis", 0) != 0) return {};
  ConstantValue made{.shape = at.shape, .wide = x.wide, .whole = x.whole};
  for (double index : at.values) {
    if (index < 0) index += static_cast<double>(x.values.size());
    if (!(index >= 0 && index < static_cast<double>(x.values.size()))) return {};
    made.values.push_back(x.values[static_cast<std::size_t>(index)]);
  }
  return made;
}

/// Returns vectors concatenated.
MadeConstant concatenated_constant(const ConstantInputs& in) {
  ConstantValue made;
  for (const ConstantInput& part : in) {
    if (!part || part->shape.size() != 1) return {};
    made.values.insert(made.values.end(), part->values.begin(), part->values.end());
    made.wide |= part->wide;
    made.whole = part->whole;
  }
  made.shape = {static_cast<std::int64_t>(made.values.size())};
  return made;
}

/// Returns a slice of a vector, in steps of one.
MadeConstant sliced(const Node& node, const ConstantInputs& in) {
  if (in[0]->shape.size() != 1) return {};
  const auto size = static_cast<double>(in[0]->values.size());
  const auto bound = [&](std::size_t i, const char* name, double otherwise) {
    double at = otherwise;
    if (i < in.size() && in[i] && in[i]->values.size() == 1) at = in[i]->values[0];
    const auto listed = node.ints_or(name, {});
    if (listed.size() == 1) at = static_cast<double>(listed[0]);
    return std::clamp(at < 0 ? at + size : at, 0.0, size);
  };
  if (in.size() > 4 && in[4] && in[4]->values != std::vector<double>{1}) return {};
  const double begin = bound(1, "starts", 0), end = std::max(begin, bound(2, "ends", size));
  return ConstantValue{.shape = {static_cast<std::int64_t>(end - begin)},
                       .values = {in[0]->values.begin() + static_cast<std::ptrdiff_t>(begin),
                                  in[0]->values.begin() + static_cast<std::ptrdiff_t>(end)},
                       .wide = in[0]->wide,
                       .whole = in[0]->whole};
}

}  // namespace

bool is_wide(ElementType type) {
  return type == ElementType::kDouble || type == ElementType::kInt64 || type == ElementType::kInt32 ||
         type == ElementType::kUint32 || type == ElementType::kUint64;
}

ElementType element_type_in(const Graph& graph, const std::string& value) {
  if (const Tensor* constant = graph.constant(value)) return constant->type();
  const Value* known = graph.find(value);
  return known ? known->type : ElementType::kUnknown;
}

MadeConstant constant_of(const Tensor& tensor) {
  ConstantValue made{
      .shape = tensor.shape(), .wide = is_wide(tensor.type()), .whole = is_integer(tensor.type())};
  if (is_integer(tensor.type()) || tensor.type() == ElementType::kBool) {
    const auto ints = tensor.to_ints();
    made.values.assign(ints.begin(), ints.end());
    for (double& value : made.values) {
      if (tensor.type() == ElementType::kUint64 && value < 0) value += 0x1p64;
    }
  } else if (tensor.type() == ElementType::kDouble) {
    made.values.resize(static_cast<std::size_t>(tensor.size()));
    if (tensor.size() > 0) std::memcpy(made.values.data(), tensor.bytes().data(), tensor.bytes().size());
  } else if (is_float(tensor.type())) {
    const auto floats = tensor.to_floats();
    made.values.assign(floats.begin(), floats.end());
  } else {
    return {};
  }
  return made;
}

MadeConstant known_shape(const Graph& graph, const Node& node) {
  const auto tensor = shape_made_by(graph, node);
  return tensor ? constant_of(*tensor) : std::nullopt;
}

MadeConstant constant_made_by(const Graph& graph, const Node& node, const ConstantInputs& in) {
  if (node.domain == kQonnxDomain) return constant_from_qonnx(node, in);
  if (node.domain != kOnnxDomain || in.empty() || !in[0]) return {};
  const std::string& op = node.op;
  if (op == "Identity") return *in[0];
  if (op == "Dropout") return drops_nothing(node, in) ? MadeConstant(*in[0]) : MadeConstant();
  if (op == "Transpose") return transposed(node, *in[0]);
  if (is_any(node, trait::kReshapes)) return reshaped(graph, node, *in[0]);
  if (op == "Cast") {
    return cast_to(element_type_of(node.int_or("to", 0)).value_or(ElementType::kUnknown), *in[0]);
  }
  if (op == "Concat") return concatenated_constant(in);
  if (op == "Slice") return sliced(node, in);
  if (op == "Gather" && in.size() == 2 && in[1]) return gathered(node, *in[0], *in[1]);
  if (op == "DequantizeLinear") return dequantized_linearly(graph, node, in);
  if (op == "QuantizeLinear") return quantized_linearly(graph, node, in);
  return computed_by(element_type_in(graph, node.outputs[0]), node, in);
}

}  // namespace crumb::graph
