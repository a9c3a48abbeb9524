#include "models/graph/qonnx/constant_values.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "formats/io/text.h"
#include "models/graph/qonnx/quant_arithmetic.h"

namespace crumb::graph {
namespace {

constexpr int kMostDepth = 200;  // nodes between a constant and the initializers it is made of

using Input = std::shared_ptr<const ConstantValue>;
using Inputs = std::vector<Input>;  // null where one is left out
using Made = std::optional<ConstantValue>;

bool is_wide(ElementType type) {
  return type == ElementType::kDouble || type == ElementType::kInt64 || type == ElementType::kInt32 ||
         type == ElementType::kUint32 || type == ElementType::kUint64;
}

Made of_tensor(const Tensor& tensor) {
  ConstantValue made{.shape = tensor.shape(), .wide = is_wide(tensor.type())};
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

QuantOperand operand(const ConstantValue& value) {
  return {.values = value.values, .shape = value.shape, .wide = value.wide};
}

Made quantized(const Node& node, const Inputs& in, Result<Quantized> result, const ConstantValue* zero) {
  Quantized found = result.take(text_of(node));
  ConstantValue made{.shape = in[0]->shape};
  made.values.assign(found.values.begin(), found.values.end());
  if (found.integers.empty()) return made;
  made.levels = std::move(found.integers);
  made.scale_shape = in[1]->shape;
  made.scale = in[1]->values;
  if (zero) {
    auto index = BroadcastIndex::make(made.shape, zero->shape);
    for (double& level : made.levels) {
      level -= zero->values[index->at()];
      index->next();
    }
  }
  return made;
}

QuantRounding rounding_of(const Node& node) {
  const std::string name = node.text_or("rounding_mode", "ROUND");
  const auto mode = find_quant_rounding(name);
  if (!mode) throw Error(text_of(node) + ": rounding_mode is " + quote_text(name));
  return *mode;
}

Made quantizer(const Node& node, const Inputs& in) {
  const auto needs = [&](std::size_t count) {
    if (in.size() >= count &&
        std::all_of(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count), std::identity()))
      return;
    throw Error(text_of(node) + " has " + std::to_string(in.size()) + " inputs, expected " +
                std::to_string(count));
  };
  const auto number = [&](std::size_t i) {
    if (in[i]->values.size() == 1) return in[i]->values[0];
    throw Error(text_of(node) + ": input " + std::to_string(i) + " has the shape " + text_of(in[i]->shape) +
                ", expected one number");
  };
  if (node.op == "BipolarQuant") {
    needs(2);
    return quantized(node, in, quantize_bipolar(operand(*in[0]), operand(*in[1])), nullptr);
  }
  if (node.op == "Quant" || node.op == "IntQuant") {
    needs(4);
    const IntegerFormat format{.bits = number(3),
                               .is_signed = node.int_or("signed", 1) != 0,
                               .narrow = node.int_or("narrow", 0) != 0,
                               .wide = in[3]->wide};
    return quantized(node, in,
                     quantize(operand(*in[0]), operand(*in[1]), operand(*in[2]), format, rounding_of(node)),
                     in[2].get());
  }
  if (node.op != "FloatQuant") return {};
  needs(6);
  const FloatFormat format{.exponent_bits = number(2),
                           .mantissa_bits = number(3),
                           .exponent_bias = number(4),
                           .max_value = number(5),
                           .has_inf = node.int_or("has_inf", 0) != 0,
                           .has_nan = node.int_or("has_nan", 0) != 0,
                           .saturates = node.int_or("saturation", 1) != 0};
  return quantized(node, in, quantize_float(operand(*in[0]), operand(*in[1]), format, rounding_of(node)),
                   nullptr);
}

template <class T>
std::vector<T> permuted(const std::vector<T>& values, const std::vector<std::int64_t>& shape,
                        const std::vector<std::int64_t>& perm, std::vector<std::int64_t>& new_shape) {
  std::vector<std::int64_t> steps(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) steps[i - 1] = steps[i] * shape[i];
  new_shape.clear();
  for (const std::int64_t axis : perm) new_shape.push_back(shape[static_cast<std::size_t>(axis)]);
  std::vector<T> out(values.size());
  std::vector<std::int64_t> place(shape.size(), 0);
  std::int64_t at = 0;
  for (T& value : out) {
    value = values[static_cast<std::size_t>(at)];
    for (std::size_t i = perm.size(); i-- > 0;) {
      const std::int64_t step = steps[static_cast<std::size_t>(perm[i])];
      at += step;
      if (++place[i] < new_shape[i]) break;
      at -= step * new_shape[i];
      place[i] = 0;
    }
  }
  return out;
}

void forget_levels(ConstantValue& value) {
  value.levels.clear();
  value.scale.clear();
  value.scale_shape.clear();
}

Made transposed(const Node& node, const ConstantValue& x) {
  std::vector<std::int64_t> reversed(x.shape.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const auto perm = node.ints_or("perm", reversed);
  auto sorted = perm;
  std::ranges::sort(sorted);
  if (!std::ranges::equal(sorted, std::vector<std::int64_t>(reversed.rbegin(), reversed.rend()))) return {};
  ConstantValue made{.wide = x.wide};
  made.values = permuted(x.values, x.shape, perm, made.shape);
  if (x.levels.empty()) return made;
  std::vector<std::int64_t> ignored;
  made.levels = permuted(x.levels, x.shape, perm, ignored);
  if (x.scale.size() == 1) {
    made.scale = x.scale;
  } else {
    std::vector<std::int64_t> full(x.shape.size() - x.scale_shape.size(), 1);
    full.insert(full.end(), x.scale_shape.begin(), x.scale_shape.end());
    made.scale = permuted(x.scale, full, perm, made.scale_shape);
  }
  return made;
}

Made reshaped(const Graph& graph, const Node& node, const ConstantValue& x) {
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

template <class Function>
Made combined(const ConstantValue& a, const ConstantValue& b, Function f) {
  ConstantValue made{.wide = a.wide || b.wide};
  const std::size_t rank = std::max(a.shape.size(), b.shape.size());
  for (std::size_t i = 0; i < rank; ++i) {
    const auto size = [&](const ConstantValue& v) {
      return i + v.shape.size() < rank ? 1 : v.shape[i + v.shape.size() - rank];
    };
    made.shape.push_back(size(a) == 1 ? size(b) : size(a));
  }
  auto of_a = BroadcastIndex::make(made.shape, a.shape), of_b = BroadcastIndex::make(made.shape, b.shape);
  const auto count = count_elements(made.shape);
  if (!of_a || !of_b || !count.ok()) return {};
  // What grows by broadcasting alone is no weight worth its memory.
  if (count.value() > static_cast<std::int64_t>(16 * (a.values.size() + b.values.size()))) return {};
  made.values.resize(static_cast<std::size_t>(count.value()));
  for (double& value : made.values) {
    value = f(a.values[of_a->at()], b.values[of_b->at()]);
    if (!made.wide) value = static_cast<float>(value);
    of_a->next();
    of_b->next();
  }
  return made;
}

template <class Function>
Made mapped(const ConstantValue& x, Function f) {
  ConstantValue made = x;
  forget_levels(made);
  for (double& value : made.values) {
    value = f(value);
    if (!made.wide) value = static_cast<float>(value);
  }
  return made;
}

Made cast(const Node& node, const ConstantValue& x) {
  const auto to = element_type_of(node.int_or("to", 0));
  if (!to || (*to != ElementType::kFloat && *to != ElementType::kDouble)) return {};
  ConstantValue made = x;
  made.wide = *to == ElementType::kDouble;
  if (!made.wide) {
    for (double& value : made.values) value = static_cast<float>(value);
  }
  return made;
}

/// [1, ..., C, ..., 1] for a scale of one number each along `axis`.
std::optional<std::vector<std::int64_t>> along_axis(const Node& node, const ConstantValue& x,
                                                    const ConstantValue& scale) {
  if (scale.values.size() == 1) return std::vector<std::int64_t>{};
  const auto rank = static_cast<std::int64_t>(x.shape.size());
  std::int64_t axis = node.int_or("axis", 1);
  if (axis < 0) axis += rank;
  if (scale.shape.size() != 1 || axis < 0 || axis >= rank) return {};
  std::vector<std::int64_t> shape(x.shape.size(), 1);
  shape[static_cast<std::size_t>(axis)] = scale.shape[0];
  return shape;
}

Made dequantized(const Node& node, const Inputs& in) {
  const auto shape = along_axis(node, *in[0], *in[1]);
  if (!shape || !BroadcastIndex::make(in[0]->shape, *shape)) return {};
  ConstantValue made{.shape = in[0]->shape};
  made.levels = in[0]->values;
  made.scale = in[1]->values;
  made.scale_shape = *shape;
  const bool shifted = in.size() > 2 && in[2];
  if (shifted && in[2]->values.size() != in[1]->values.size()) return {};
  auto index = BroadcastIndex::make(made.shape, *shape);
  made.values.resize(made.levels.size());
  for (std::size_t i = 0; i < made.levels.size(); ++i, index->next()) {
    if (shifted) made.levels[i] -= in[2]->values[index->at()];
    made.values[i] = static_cast<float>(made.levels[i] * made.scale[index->at()]);
  }
  return made;
}

Made to_container(const Graph& graph, const Node& node, const Inputs& in) {
  const Value* known = graph.find(node.outputs[0]);
  const auto shape = along_axis(node, *in[0], *in[1]);
  if (!known || !is_integer(known->type) || !shape || !BroadcastIndex::make(in[0]->shape, *shape)) return {};
  const bool shifted = in.size() > 2 && in[2];
  if (shifted && in[2]->values.size() != in[1]->values.size()) return {};
  const unsigned bits = info(known->type).bits;
  const bool is_signed = info(known->type).kind == ElementKind::kSigned;
  const double low = is_signed ? -std::exp2(bits - 1) : 0, high = std::exp2(is_signed ? bits - 1 : bits) - 1;
  ConstantValue made{.shape = in[0]->shape, .wide = is_wide(known->type)};
  made.values.resize(in[0]->values.size());
  auto index = BroadcastIndex::make(made.shape, *shape);
  for (std::size_t i = 0; i < made.values.size(); ++i, index->next()) {
    const double q =
        rounded(static_cast<float>(in[0]->values[i] / in[1]->values[index->at()]), QuantRounding::kHalfEven);
    made.values[i] = std::clamp(q + (shifted ? in[2]->values[index->at()] : 0), low, high);
  }
  return made;
}

Made clipped(const Node& node, const Inputs& in) {
  const auto bound = [&](std::size_t i, const char* name, double otherwise) {
    if (node.has(name)) return static_cast<double>(node.float_or(name, 0));
    return i < in.size() && in[i] && in[i]->values.size() == 1 ? in[i]->values[0] : otherwise;
  };
  const double low = bound(1, "min", -INFINITY), high = bound(2, "max", INFINITY);
  return mapped(*in[0], [&](double x) { return std::min(std::max(x, low), high); });
}

Made of_two(const std::string& op, const ConstantValue& a, const ConstantValue& b) {
  if (op == "Add") return combined(a, b, std::plus());
  if (op == "Sub") return combined(a, b, std::minus());
  if (op == "Mul") return combined(a, b, std::multiplies());
  if (op == "Div") return combined(a, b, std::divides());
  if (op == "Pow") return combined(a, b, [](double x, double y) { return std::pow(x, y); });
  return {};
}

Made of_one(const std::string& op, const ConstantValue& x) {
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

Made applied(const Graph& graph, const Node& node, const Inputs& in) {
  if (node.domain == kQonnxDomain) return quantizer(node, in);
  if (node.domain != kOnnxDomain || in.empty() || !in[0]) return {};
  const std::string& op = node.op;
  if (op == "Identity" || op == "Dropout") return *in[0];
  if (op == "Transpose") return transposed(node, *in[0]);
  if (op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze")
    return reshaped(graph, node, *in[0]);
  if (op == "Cast") return cast(node, *in[0]);
  if (op == "Clip") return clipped(node, in);
  const bool has_scale = in.size() >= 2 && in[1];
  if (op == "DequantizeLinear") return has_scale ? dequantized(node, in) : Made();
  if (op == "QuantizeLinear") return has_scale ? to_container(graph, node, in) : Made();
  return has_scale ? of_two(op, *in[0], *in[1]) : of_one(op, *in[0]);
}

bool is_random(const Node& node) {
  return node.op.starts_with("Random") || node.op == "Bernoulli" || node.op == "Multinomial";
}

}  // namespace

bool ConstantValue::one_scale_along(std::size_t axis) const {
  if (scale.size() <= 1) return true;
  const std::size_t missing = shape.size() - scale_shape.size();
  return axis < missing || scale_shape[axis - missing] == 1;
}

ConstantValues::ConstantValues(const Graph& graph) : graph_(graph), links_(graph) {
  for (const auto& [name, tensor] : graph.initializers) constants_.insert(name);
  for (const Node& node : graph.nodes) {
    const bool opaque = std::ranges::any_of(
        node.attributes, [](const auto& entry) { return std::holds_alternative<Opaque>(entry.second); });
    if (is_random(node) || opaque) continue;
    const bool all = std::ranges::all_of(
        node.inputs, [&](const std::string& value) { return value.empty() || constants_.contains(value); });
    if (!all) continue;
    for (const std::string& value : node.outputs) {
      if (!value.empty()) constants_.insert(value);
    }
  }
}

std::shared_ptr<const ConstantValue> ConstantValues::compute(const std::string& value, int depth,
                                                             Memo& memo) const {
  if (const auto found = memo.find(value); found != memo.end()) return found->second;
  Made made;
  const std::size_t producer = links_.producer(value);
  if (const Tensor* tensor = graph_.constant(value)) {
    made = of_tensor(*tensor);
  } else if (constants_.contains(value) && producer != Links::kNone && depth < kMostDepth) {
    const Node& node = graph_.nodes[producer];
    const auto constant = node.attributes.find("value");
    if (node.is("Constant") && constant != node.attributes.end() &&
        std::holds_alternative<Tensor>(constant->second)) {
      made = of_tensor(std::get<Tensor>(constant->second));
    } else if (node.outputs[0] == value) {
      Inputs inputs;
      bool known = true;
      for (const std::string& input : node.inputs) {
        inputs.push_back(input.empty() ? nullptr : compute(input, depth + 1, memo));
        known &= input.empty() || inputs.back();
      }
      if (known) made = applied(graph_, node, inputs);
    }
  }
  auto shared = made ? std::make_shared<const ConstantValue>(std::move(*made)) : nullptr;
  memo[value] = shared;
  return shared;
}

std::optional<ConstantValue> ConstantValues::find(const std::string& value) const {
  Memo memo;
  const auto found = compute(value, 0, memo);
  return found ? std::optional(*found) : std::nullopt;
}

std::optional<double> ConstantValues::number(const std::string& value) const {
  const auto found = find(value);
  return found && found->values.size() == 1 ? std::optional(found->values[0]) : std::nullopt;
}

}  // namespace crumb::graph
