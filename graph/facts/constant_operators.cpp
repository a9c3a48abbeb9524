#include "graph/facts/constant_operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "graph/edit.h"
#include "graph/operator_traits.h"
#include "graph/strided_index.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kMostMade = std::int64_t{1} << 20;  // elements that an operator chooses or makes

std::int64_t elements_behind(std::span<const std::int64_t> shape, std::size_t axis) {
  std::int64_t count = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) count *= shape[i];
  return count;
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

/// Whether an operator that chooses or joins elements is computed: for whole numbers, which sizes are made
/// of, and for vectors. Larger tables of floats are weights, and their nodes stay.
bool is_of_sizes(const ConstantValue& x) { return x.whole || x.shape.size() == 1; }

/// A constant of x's type and of this shape, whose element i is x's element at(i).
template <class At>
MadeConstant chosen_from(const ConstantValue& x, std::vector<std::int64_t> shape, At at) {
  const auto count = count_elements(shape);
  if (!count.ok() || count.value() > kMostMade) return {};
  ConstantValue made{.shape = std::move(shape), .wide = x.wide, .whole = x.whole};
  made.values.reserve(static_cast<std::size_t>(count.value()));
  for (std::int64_t i = 0; i < count.value(); ++i) made.values.push_back(x.values[at(i)]);
  return made;
}

/// Returns the elements of x at these indices of an axis.
MadeConstant gathered(const Node& node, const ConstantValue& x, const ConstantValue& at) {
  const auto axis = axis_in(node.int_or("axis", 0), x.shape.size());
  if (!axis || !is_of_sizes(x)) return {};
  const std::int64_t size = x.shape[*axis];
  std::vector<std::int64_t> indices;
  for (const double index : at.values) {
    if (!(index >= static_cast<double>(-size) && index < static_cast<double>(size))) return {};
    indices.push_back(static_cast<std::int64_t>(index) + (index < 0 ? size : 0));
  }
  std::vector<std::int64_t> shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(*axis));
  shape.insert(shape.end(), at.shape.begin(), at.shape.end());
  shape.insert(shape.end(), x.shape.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, x.shape.end());
  const std::int64_t inner = elements_behind(x.shape, *axis);
  const auto count = static_cast<std::int64_t>(indices.size());
  return chosen_from(x, std::move(shape), [&](std::int64_t i) {
    const std::int64_t outer = i / inner / count,
                       index = indices[static_cast<std::size_t>(i / inner % count)];
    return static_cast<std::size_t>((outer * size + index) * inner + i % inner);
  });
}

/// Returns constants joined along an axis.
MadeConstant concatenated_constant(const Node& node, const ConstantInputs& in) {
  const auto axis = axis_in(node.int_or("axis", node.version < 4 ? 1 : 0), in[0]->shape.size());
  if (!axis) return {};
  ConstantValue made{.shape = in[0]->shape, .whole = in[0]->whole};
  made.shape[*axis] = 0;
  for (const ConstantInput& part : in) {
    if (!part || !is_of_sizes(*part) || part->shape.size() != made.shape.size()) return {};
    for (std::size_t i = 0; i < made.shape.size(); ++i)
      if (i != *axis && part->shape[i] != made.shape[i]) return {};
    made.shape[*axis] += part->shape[*axis];
    made.wide |= part->wide;
  }
  const std::int64_t inner = elements_behind(made.shape, *axis);
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < *axis; ++i) outer *= made.shape[i];
  for (std::int64_t i = 0; i < outer; ++i) {
    for (const ConstantInput& part : in) {
      const std::int64_t each = part->shape[*axis] * inner;
      const auto from = part->values.begin() + i * each;
      made.values.insert(made.values.end(), from, from + each);
    }
  }
  return made;
}

/// What a Slice takes of an axis: `count` elements from `first` on, in steps.
struct Taken {
  std::int64_t first = 0, step = 1, count = 0;
};

Taken taken_of(std::int64_t size, double start, double end, std::int64_t step) {
  const auto whole = static_cast<double>(size);
  const double least = step > 0 ? 0 : -1, most = step > 0 ? whole : whole - 1;
  const double first =
      std::clamp(start < 0 ? start + whole : start, std::max(least, 0.0), std::max(most, 0.0));
  const double last = std::clamp(end < 0 ? end + whole : end, least, std::max(most, least));
  const double count = std::ceil((last - first) / static_cast<double>(step));
  return {.first = static_cast<std::int64_t>(first),
          .step = step,
          .count = size == 0 ? 0 : std::max<std::int64_t>(static_cast<std::int64_t>(count), 0)};
}

/// Returns a slice: of Slice's inputs, or, before version 10, its attributes.
MadeConstant sliced(const Node& node, const ConstantInputs& in) {
  const ConstantValue& x = *in[0];
  if (!is_of_sizes(x)) return {};
  const auto list = [&](std::size_t i, const char* name) {
    if (i < in.size() && in[i]) return in[i]->values;
    const auto listed = node.ints_or(name, {});
    return std::vector<double>(listed.begin(), listed.end());
  };
  const std::vector<double> starts = list(1, "starts"), ends = list(2, "ends");
  std::vector<double> axes = list(3, "axes"), steps = list(4, "steps");
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return {};
  std::vector<Taken> taken;
  for (const std::int64_t size : x.shape) taken.push_back({.count = size});
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = axis_in(static_cast<std::int64_t>(axes[i]), x.shape.size());
    // Steps beyond any size take one element, and -2^63 has no opposite.
    const auto step = static_cast<std::int64_t>(std::clamp(steps[i], -0x1p40, 0x1p40));
    // An end beyond all sizes is clamped; onnxruntime, going backwards, takes this one for the beginning.
    const bool has_two_readings = step < 0 && ends[i] >= std::numeric_limits<std::int32_t>::max();
    if (!axis || step == 0 || has_two_readings) return {};
    taken[*axis] = taken_of(x.shape[*axis], starts[i], ends[i], step);
  }
  std::vector<std::int64_t> shape;
  for (const Taken& axis : taken) shape.push_back(axis.count);
  return chosen_from(x, shape, [&](std::int64_t i) {
    std::int64_t at = 0, step = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      at += (taken[axis].first + i % shape[axis] * taken[axis].step) * step;
      i /= shape[axis];
      step *= x.shape[axis];
    }
    return static_cast<std::size_t>(at);
  });
}

/// Returns the sizes that an input says; nothing where one is no size.
std::optional<std::vector<std::int64_t>> sizes_of(const ConstantValue& x) {
  std::vector<std::int64_t> sizes;
  for (const double size : x.values) {
    if (!(size >= 0 && size < 0x1p31) || x.shape.size() > 1) return {};
    sizes.push_back(static_cast<std::int64_t>(size));
  }
  return sizes;
}

MadeConstant filled(const Node& node, const ConstantValue& shape) {
  const auto sizes = sizes_of(shape);
  const auto given = node.attributes.find("value");
  const bool is_given = given != node.attributes.end();
  const auto* tensor = is_given ? std::get_if<Tensor>(&given->second) : nullptr;
  if (!sizes || (is_given && !tensor)) return {};
  const MadeConstant one = tensor ? constant_of(*tensor) : ConstantValue{.shape = {}, .values = {0}};
  if (!one || one->values.size() != 1) return {};
  return chosen_from(*one, *sizes, [](std::int64_t) { return std::size_t{0}; });
}

MadeConstant expanded(const ConstantValue& x, const ConstantValue& shape) {
  const auto sizes = sizes_of(shape);
  const auto whole = sizes ? broadcast_shape(x.shape, *sizes) : std::nullopt;
  auto of_x = whole ? StridedIndex::broadcast(*whole, x.shape) : std::nullopt;
  if (!of_x) return {};
  return chosen_from(x, *whole, [&](std::int64_t i) {
    if (i > 0) of_x->next();
    return of_x->at();
  });
}

/// Returns Range's whole numbers.
MadeConstant counted(const ConstantInputs& in) {
  if (in.size() != 3) return {};
  for (const ConstantInput& number : in)
    if (!number || !number->whole || number->values.size() != 1 || !(std::fabs(number->values[0]) < 0x1p53))
      return {};
  const double start = in[0]->values[0], limit = in[1]->values[0], step = in[2]->values[0];
  const double count = step == 0 ? -1 : std::max(std::ceil((limit - start) / step), 0.0);
  if (!(count >= 0 && count <= static_cast<double>(kMostMade))) return {};
  ConstantValue made{.shape = {static_cast<std::int64_t>(count)}, .wide = in[0]->wide, .whole = true};
  for (double i = 0; i < count; ++i) made.values.push_back(start + i * step);
  return made;
}

}  // namespace

std::optional<std::size_t> axis_in(std::int64_t axis, std::size_t rank) {
  const auto axes = static_cast<std::int64_t>(rank);
  if (axis < -axes || axis >= axes) return {};
  return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
}

std::optional<std::vector<std::int64_t>> broadcast_shape(std::span<const std::int64_t> a,
                                                         std::span<const std::int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<std::int64_t> made(a.begin(), a.end());
  for (std::size_t i = 0; i < b.size(); ++i) {
    std::int64_t& size = made[a.size() - b.size() + i];
    if (size != b[i] && size != 1 && b[i] != 1) return {};
    if (size == 1) size = b[i];
  }
  return made;
}

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
  if (op == "Concat") return concatenated_constant(node, in);
  if (op == "Slice") return sliced(node, in);
  if (op == "Gather" && in.size() == 2 && in[1]) return gathered(node, *in[0], *in[1]);
  if (op == "ConstantOfShape") return filled(node, *in[0]);
  if (op == "Expand" && in.size() == 2 && in[1]) return expanded(*in[0], *in[1]);
  if (op == "Range") return counted(in);
  if (op == "DequantizeLinear") return dequantized_linearly(graph, node, in);
  if (op == "QuantizeLinear") return quantized_linearly(graph, node, in);
  return computed_by(element_type_in(graph, node.outputs[0]), node, in);
}

}  // namespace crumb::graph
