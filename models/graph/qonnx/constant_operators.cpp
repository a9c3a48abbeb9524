#include "models/graph/qonnx/constant_operators.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "models/graph/edit.h"
#include "models/graph/qonnx/quant_arithmetic.h"
#include "models/graph/strided_index.h"

namespace crumb::graph {
namespace {

template <class T>
std::vector<T> reordered(const std::vector<T>& values, const std::vector<std::int64_t>& shape,
                         const std::vector<std::int64_t>& perm) {
  std::vector<T> out;
  out.reserve(values.size());
  StridedIndex index = StridedIndex::permuted(shape, perm);
  for (std::size_t i = 0; i < values.size(); ++i, index.next()) out.push_back(values[index.at()]);
  return out;
}

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
  made.shape = permuted(x.shape, perm);
  made.values = reordered(x.values, x.shape, perm);
  if (x.levels.empty()) return made;
  made.levels = reordered(x.levels, x.shape, perm);
  if (x.scale.size() == 1) {
    made.scale = x.scale;
  } else {
    std::vector<std::int64_t> full(x.shape.size() - x.scale_shape.size(), 1);
    full.insert(full.end(), x.scale_shape.begin(), x.scale_shape.end());
    made.scale = reordered(x.scale, full, perm);
    made.scale_shape = permuted(full, perm);
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

/// Whether a sum or product of integers may be beyond their type, which is not known here: only what every type of this
/// width holds is sure not to be.
bool may_wrap(const ConstantValue& made) {
  if (!made.whole) return false;
  const double least = made.wide ? -0x1p31 : 0, most = made.wide ? 0x1p31 : 0x1p7;
  return std::ranges::any_of(made.values, [&](double v) { return !(v >= least && v < most); });
}

template <class Function>
MadeConstant combined(const ConstantValue& a, const ConstantValue& b, Function f) {
  ConstantValue made{.wide = a.wide || b.wide, .whole = a.whole && b.whole};
  const std::size_t rank = std::max(a.shape.size(), b.shape.size());
  for (std::size_t i = 0; i < rank; ++i) {
    const auto size = [&](const ConstantValue& v) {
      return i + v.shape.size() < rank ? 1 : v.shape[i + v.shape.size() - rank];
    };
    made.shape.push_back(size(a) == 1 ? size(b) : size(a));
  }
  auto of_a = StridedIndex::broadcast(made.shape, a.shape),
       of_b = StridedIndex::broadcast(made.shape, b.shape);
  const auto count = count_elements(made.shape);
  if (!of_a || !of_b || !count.ok()) return {};
  // What grows by broadcasting alone is no weight worth its memory.
  if (count.value() > static_cast<std::int64_t>(16 * (a.values.size() + b.values.size()))) return {};
  made.values.resize(static_cast<std::size_t>(count.value()));
  for (double& value : made.values) {
    value = f(a.values[of_a->at()], b.values[of_b->at()]);
    if (made.whole) value = std::trunc(value);
    if (!made.wide) value = static_cast<float>(value);
    of_a->next();
    of_b->next();
  }
  if (may_wrap(made)) return {};
  return made;
}

template <class Function>
MadeConstant mapped(const ConstantValue& x, Function f) {
  ConstantValue made = x;
  forget_levels(made);
  for (double& value : made.values) {
    value = f(value);
    if (!made.wide) value = static_cast<float>(value);
  }
  if (may_wrap(made)) return {};
  return made;
}

MadeConstant cast(const Node& node, const ConstantValue& x) {
  const auto to = element_type_of(node.int_or("to", 0));
  if (!to || (*to != ElementType::kFloat && *to != ElementType::kDouble && *to != ElementType::kInt64))
    return {};
  ConstantValue made = x;
  if (*to == ElementType::kInt64) {
    forget_levels(made);
    made.wide = made.whole = true;
    for (double& value : made.values) value = std::trunc(value);
    return made;
  }
  made.wide = *to == ElementType::kDouble;
  made.whole = false;
  if (!made.wide) {
    for (double& value : made.values) value = static_cast<float>(value);
  }
  return made;
}

MadeConstant clipped(const Node& node, const ConstantInputs& in) {
  const auto bound = [&](std::size_t i, const char* name, double otherwise) {
    if (node.has(name)) return static_cast<double>(node.float_or(name, 0));
    return i < in.size() && in[i] && in[i]->values.size() == 1 ? in[i]->values[0] : otherwise;
  };
  const double low = bound(1, "min", -INFINITY), high = bound(2, "max", INFINITY);
  if (std::isnan(low) || std::isnan(high)) return {};
  return mapped(*in[0], [&](double x) { return std::min(std::max(x, low), high); });
}

MadeConstant of_two(const std::string& op, const ConstantValue& a, const ConstantValue& b) {
  if (op == "Add") return combined(a, b, std::plus());
  if (op == "Sub") return combined(a, b, std::minus());
  if (op == "Mul") return combined(a, b, std::multiplies());
  if (op == "Div") return combined(a, b, std::divides<double>());
  if (op == "Pow") return combined(a, b, [](double x, double y) { return std::pow(x, y); });
  return {};
}

MadeConstant of_one(const std::string& op, const ConstantValue& x) {
  if (op == "Sqrt") return mapped(x, [](double v) { return std::sqrt(v); });
  if (op == "Neg") return mapped(x, std::negate());
  if (op == "Abs") return mapped(x, [](double v) { return std::fabs(v); });
  if (op == "Exp") return mapped(x, [](double v) { return std::exp(v); });
  if (op == "Reciprocal") return mapped(x, [](double v) { return 1 / v; });
  if (op == "Relu") return mapped(x, [](double v) { return v < 0 ? 0 : v; });
  if (op == "Floor") return mapped(x, [](double v) { return std::floor(v); });
  if (op == "Ceil") return mapped(x, [](double v) { return std::ceil(v); });
  if (op == "Round") return mapped(x, [](double v) { return std::nearbyint(v); });
  return {};
}

/// Whether a Dropout is inference: before version 7 an attribute says so, from 12 on an input.
bool drops_nothing(const Node& node, const ConstantInputs& in) {
  if (node.version < 7) return node.int_or("is_test", 0) != 0;
  return in.size() < 3 || !in[2] || in[2]->values == std::vector<double>{0};
}

/// Elements of a vector.
MadeConstant gathered(const Node& node, const ConstantValue& x, const ConstantValue& at) {
  if (x.shape.size() != 1 || node.int_or("axis", 0) != 0) return {};
  ConstantValue made{.shape = at.shape, .wide = x.wide, .whole = x.whole};
  for (double place : at.values) {
    if (place < 0) place += static_cast<double>(x.values.size());
    if (!(place >= 0 && place < static_cast<double>(x.values.size()))) return {};
    made.values.push_back(x.values[static_cast<std::size_t>(place)]);
  }
  return made;
}

/// Vectors behind each other.
MadeConstant concatenated(const ConstantInputs& in) {
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

/// A part of a vector, in steps of one.
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

MadeConstant constant_of(const Tensor& tensor) {
  ConstantValue made{
      .shape = tensor.shape(), .wide = is_wide(tensor.type()), .whole = is_integer(tensor.type())};
  if (is_integer(tensor.type()) || tensor.type() == ElementType::kBool) {
    const auto ints = tensor.to_ints();
    made.values.assign(ints.begin(), ints.end());
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
  if (op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze")
    return reshaped(graph, node, *in[0]);
  if (op == "Cast") return cast(node, *in[0]);
  if (op == "Clip") return clipped(node, in);
  if (op == "Concat") return concatenated(in);
  if (op == "Slice") return sliced(node, in);
  if (op == "Gather" && in.size() == 2 && in[1]) return gathered(node, *in[0], *in[1]);
  const bool has_scale = in.size() >= 2 && in[1];
  if (op == "DequantizeLinear") return has_scale ? dequantized_linearly(node, in) : MadeConstant();
  if (op == "QuantizeLinear") return has_scale ? quantized_linearly(graph, node, in) : MadeConstant();
  return has_scale ? of_two(op, *in[0], *in[1]) : of_one(op, *in[0]);
}

}  // namespace crumb::graph
