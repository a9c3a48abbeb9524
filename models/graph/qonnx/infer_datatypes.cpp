#include "models/graph/qonnx/infer_datatypes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/io/text.h"
#include "models/graph/qonnx/levels.h"
#include "models/graph/qonnx/quant_arithmetic.h"

namespace crumb::graph {
namespace {

constexpr const char* kAnnotation = "finn_datatype";

template <std::size_t Count>
bool is_among(const std::string& op, const std::array<const char*, Count>& names) {
  return std::ranges::find(names, op) != names.end();
}

/// Operators whose output holds values of their first input: by qonnx's rules, and others that do too.
constexpr std::array kMoves = {"Reshape",        "Transpose",     "Flatten",  "Slice",           "Gather",
                               "GatherElements", "GatherND",      "Identity", "Expand",          "MaxPool",
                               "Scatter",        "GlobalMaxPool", "Squeeze",  "ScatterElements", "Tile",
                               "ScatterND",      "Unsqueeze",     "Pad",      "Concat",          "Clip"};
constexpr std::array kMovesToo = {"DepthToSpace", "SpaceToDepth",    "Dropout", "Split",
                                  "Compress",     "ReverseSequence", "Relu"};
constexpr std::array kMeans = {"AveragePool", "GlobalAveragePool", "ReduceMean"};
constexpr std::array kProducts = {"MatMul", "Gemm", "Conv", "Add", "Sub", "Mul"};

bool is_scaled_integer(const DataType& type) {
  return type.is_integer() || type.is_fixed_point() || type.is_scaled();
}

ValueType of_type(DataType type) {
  ValueType made{.type = type};
  if (type.is_integer()) {
    made.levels = {.low = *type.min(),
                   .high = *type.max(),
                   .bits = type.bits(),
                   .is_signed = type.is_signed(),
                   .scale = 1};
  } else if (type.is_fixed_point()) {
    const double all = std::exp2(type.bits() - 1);
    made.levels = {.low = -all, .high = all - 1, .bits = type.bits()};
  }
  return made;
}

class Inference {
 public:
  Inference(const Graph& graph, const ConstantValues& constants, TypeRules rules, const InputRanges& given)
      : graph_(graph), constants_(constants), exact_(rules == TypeRules::kExact), given_(given) {}

  std::map<std::string, ValueType> run() {
    for (const auto& [name, tensor] : graph_.initializers) types_[name] = known(name, tensor.type());
    for (const std::string& name : graph_.inputs) {
      ValueType& type = types_[name] = known(name, element_type(name));
      const auto range = given_.find(name);
      if (!type.levels && range != given_.end())
        type.levels = ranged({.scale = 1}, range->second.first, range->second.second);
    }
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

  std::optional<DataType> annotated(const std::string& name) const {
    const Value* value = graph_.find(name);
    if (!value) return {};
    const auto found = value->annotations.find(kAnnotation);
    if (found == value->annotations.end()) return {};
    return DataType::parse(found->second).take("the annotation of value " + quote_text(name));
  }

  ValueType known(const std::string& name, ElementType type) const {
    if (const auto data_type = annotated(name)) return of_type(*data_type);
    return exact_ ? of_type(exact_data_type(type)) : ValueType{.type = usual_data_type(type)};
  }

  ValueType in(const Node& node, std::size_t i) const {
    if (!node.has_input(i)) return {};
    const auto found = types_.find(node.inputs[i]);
    return found == types_.end() ? ValueType() : found->second;
  }

  ValueType made_by(const Node& node, const std::string& value) const {
    if (node.domain == kQonnxDomain) return value == node.outputs[0] ? by_qonnx(node, value) : ValueType();
    if (node.domain == kChannelsLastDomain)
      return exact_ && node.op == "Conv" ? product(node, value) : in(node, 0);
    if (node.domain != kOnnxDomain) return otherwise(value);
    const std::string& op = node.op;
    if (op == "Sign") return of_type(DataType::bipolar());
    if (exact_ && (op == "Add" || op == "Sub" || op == "Mul" || op == "Div")) return arithmetic(node, value);
    if (is_among(op, kProducts)) return product(node, value);
    if (exact_ && is_among(op, kMeans)) return mean(node, value);
    if (op == "Resize" || op == "Upsample") {
      return node.text_or("mode", "nearest") == "nearest" ? in(node, 0) : otherwise(value);
    }
    if (op == "QuantizeLinear") return container(node, value);
    if (op == "DequantizeLinear") return dequantized(node);
    if (exact_ && op == "Concat") return concatenated(node);
    if (exact_ && op == "Clip") return clipped(node);
    if (exact_ && (op == "MaxPool" || op == "Dropout") && value != node.outputs[0]) return otherwise(value);
    if (exact_ && op == "Pad") return padded(node);
    if (exact_ && op == "Relu") return rectified(in(node, 0));
    if (is_among(op, kMoves) || (exact_ && is_among(op, kMovesToo))) return in(node, 0);
    return otherwise(value);
  }

  /// An annotation stays, and so does an integer type of ONNX.
  ValueType otherwise(const std::string& value) const {
    if (const auto type = annotated(value); type && !exact_) return {.type = *type};
    return exact_ ? of_type(exact_data_type(element_type(value))) : ValueType();
  }

  /// MatMul and its like: 32 bits.
  ValueType product(const Node& node, const std::string& value) const {
    bool all_integer = true, all_scaled = true, any_float = false, any_signed = node.op == "Sub";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (exact_ && !node.has_input(i)) continue;
      const DataType type = in(node, i).type;
      all_integer &= type.is_integer();
      all_scaled &= is_scaled_integer(type);
      any_float |= type.is_float();
      any_signed |= type.is_signed();
    }
    if (all_integer) {
      const DataType type = DataType::integer(32, any_signed);
      return exact_ ? ValueType{.type = type} : of_type(type);  // a rule, no bound
    }
    if (all_scaled) return {.type = DataType::scaled(32)};
    return any_float ? ValueType() : otherwise(value);
  }

  /// What is known of a sum of levels of one scale, and of levels times a constant.
  ValueType arithmetic(const Node& node, const std::string& value) const {
    const bool divides = node.op == "Div";
    ValueType made = divides ? otherwise(value) : product(node, value);
    if (divides && is_integer(element_type(value))) return made;
    const ValueType a = in(node, 0), b = in(node, 1);
    made.levels.reset();
    if (node.op == "Add" || node.op == "Sub") {
      made.levels = sum_of(a, b, node.op == "Sub");
      return made;
    }
    const std::size_t data = is_constant(node, 0) && !divides ? 1 : 0;
    const ValueType& x = data == 0 ? a : b;
    const auto factor = parameter(node, 1 - data);
    if (!factor) return made;
    if (x.levels) made.levels = scaled(*x.levels, factor->values, divides);
    if (x.reach && factor->values.size() == 1 && factor->values[0] > 0) {
      const double by = divides ? 1 / factor->values[0] : factor->values[0];
      made.reach = Reach{x.reach->low * by, x.reach->high * by};
    }
    return made;
  }

  /// A mean lies between the least and the greatest, with the zeros of a border.
  ValueType mean(const Node& node, const std::string& value) const {
    ValueType made = otherwise(value);
    if (const auto reach = reach_of(in(node, 0)))
      made.reach = Reach{std::min(reach->low, 0.0), std::max(reach->high, 0.0)};
    return made;
  }

  /// Version 2 clamps to its own width; version 1 keeps the scale and drops as many bits as the widths differ.
  ValueType truncated(const Node& node) const {
    const auto scale = parameter(node, 1), zero = parameter(node, 2);
    const bool is_second = node.inputs.size() >= 6;
    const auto in_bits = parameter(node, 3), out_bits = parameter(node, is_second ? 5 : 4);
    const auto out_scale = is_second ? parameter(node, 4) : scale;
    const auto mode = find_quant_rounding(node.text_or("rounding_mode", "FLOOR"));
    if (!one_of(scale) || !one_of(out_scale) || !zero || !all_are(*zero, 0) || !one_of(in_bits) ||
        !one_of(out_bits) || !mode)
      return {};
    const double bits = *one_of(out_bits);
    if (!(bits >= 1 && bits <= DataType::kMostBits)) return {};
    ValueType made{.type = DataType::scaled(static_cast<int>(std::ceil(bits)))};
    const Levels grid{.scale = one_of(out_scale)};
    if (is_second) {
      const IntegerFormat format{
          .bits = bits, .is_signed = node.int_or("signed", 1) != 0, .narrow = node.int_or("narrow", 0) != 0};
      made.levels = ranged(grid, std::floor(format.lower()), std::ceil(format.upper()));
    } else if (const auto reach = reach_of(in(node, 0))) {
      const double by = std::exp2(*one_of(in_bits) - bits);
      const auto level = [&](double x) {
        return rounded(std::nearbyint(x / *one_of(scale)) / by, *mode, true);
      };
      made.levels = ranged(grid, level(reach->low), level(reach->high));
    }
    return made;
  }

  bool is_constant(const Node& node, std::size_t i) const {
    return node.has_input(i) && constants_.is_constant(node.inputs[i]);
  }

  static std::optional<double> one_of(const std::optional<ConstantValue>& scale) {
    return scale && scale->values.size() == 1 ? std::optional(scale->values[0]) : std::nullopt;
  }

  ValueType by_qonnx(const Node& node, const std::string& value) const {
    const std::string& op = node.op;
    if (op == "Quant" || op == "IntQuant") return integer_quantizer(node);
    if (op == "BipolarQuant") return bipolar(node);
    if (op == "FloatQuant") return float_quantizer(node);
    if (op == "MultiThreshold") return thresholds(node);
    if (op == "XnorPopcountMatMul") return of_type(DataType::integer(32, false));
    if (op == "Im2Col" || op == "MaxPoolNHWC") return in(node, 0);
    if (op == "QuantAvgPool2d") {
      const std::int64_t bits = node.int_or("obits", 32);
      if (bits < 1 || bits > DataType::kMostBits) return {};
      return of_type(DataType::integer(static_cast<int>(bits), node.int_or("signed", 0) != 0));
    }
    if (op == "Trunc") return exact_ ? truncated(node) : ValueType();
    return otherwise(value);
  }

  std::optional<ConstantValue> parameter(const Node& node, std::size_t i) const {
    return node.has_input(i) ? constants_.find(node.inputs[i]) : std::nullopt;
  }

  static bool all_are(const ConstantValue& constant, double number) {
    return std::ranges::all_of(constant.values, [&](double value) { return value == number; });
  }

  ValueType integer_quantizer(const Node& node) const {
    const auto scale = parameter(node, 1), zero = parameter(node, 2), width = parameter(node, 3);
    if (!width || width->values.size() != 1 || (!exact_ && (!scale || !zero || !width->shape.empty())))
      return {};
    const double bits = width->values[0];
    if (!(bits > 0 && bits <= DataType::kMostBits) || (!exact_ && std::trunc(bits) != bits)) return {};
    const IntegerFormat format{
        .bits = bits, .is_signed = node.int_or("signed", 1) != 0, .narrow = node.int_or("narrow", 0) != 0};
    const int whole = static_cast<int>(std::ceil(bits));
    const bool centred = zero && all_are(*zero, 0), unit = scale && all_are(*scale, 1);
    if (!exact_ && !centred) return {};
    DataType type = DataType::scaled(whole);
    if (unit && centred) {
      type = format.is_bipolar() ? DataType::bipolar() : DataType::integer(whole, format.is_signed);
    }
    if (!exact_ || !zero || zero->values.empty()) return {.type = type};

    Levels levels{.low = format.is_bipolar() ? -1 : std::floor(format.lower()),
                  .high = format.is_bipolar() ? 1 : std::ceil(format.upper()),
                  .bits = whole,
                  .is_signed = format.is_signed,
                  .one_scale = scale && scale->values.size() == 1,
                  .scale = one_of(scale)};
    const double shift = zero->values[0];
    if (!all_are(*zero, shift) || std::trunc(2 * shift) != 2 * shift) return {.type = type};
    levels = shifted(levels, shift);
    if (unit && !levels.halves && !centred) type = DataType::least_integer(levels.low, levels.high);
    return {.type = type, .levels = levels};
  }

  ValueType bipolar(const Node& node) const {
    const auto scale = parameter(node, 1);
    if (scale && all_are(*scale, 1)) return of_type(DataType::bipolar());
    if (!exact_) return {};
    Levels levels{.low = -1,
                  .high = 1,
                  .bits = 1,
                  .one_scale = scale && scale->values.size() == 1,
                  .scale = one_of(scale)};
    return {.type = DataType::scaled(1), .levels = levels};
  }

  ValueType float_quantizer(const Node& node) const {
    const auto scale = parameter(node, 1);
    std::array<int, 3> fields{};
    for (std::size_t i = 0; i < 3; ++i) {
      const auto field = parameter(node, i + 2);
      if (!field || field->values.size() != 1 || (!exact_ && !field->shape.empty())) return {};
      const double number = field->values[0];
      if (std::trunc(number) != number || std::fabs(number) > 1000) return {};
      fields[i] = static_cast<int>(number);
    }
    if (fields[0] < 1 || fields[0] > 8 || fields[1] < 0 || fields[1] > 23) return {};
    if (!exact_ && !(scale && all_are(*scale, 1))) return {};
    ValueType made{.type = DataType::floating(fields[0], fields[1], fields[2])};
    const auto most = parameter(node, 5);
    if (!exact_ || !most || most->values.size() != 1) return made;
    const FloatFormat format{.exponent_bits = double(fields[0]),
                             .mantissa_bits = double(fields[1]),
                             .exponent_bias = double(fields[2]),
                             .max_value = most->values[0],
                             .has_inf = node.int_or("has_inf", 0) != 0,
                             .has_nan = node.int_or("has_nan", 0) != 0};
    if (node.int_or("saturation", 1) == 0) return made;
    made.levels = {.low = -format.largest(),
                   .high = format.largest(),
                   .bits = made.type.bits(),
                   .one_scale = scale && scale->values.size() == 1,
                   .minifloat = std::exp2(1 - fields[1] - fields[2]),
                   .scale = one_of(scale)};
    return made;
  }

  static ValueType thresholds(const Node& node) {
    for (const char* name : {"out_scale", "out_bias"}) {
      const float number = node.float_or(name, 0);
      if (std::trunc(number) != number) return {};
    }
    const auto type = DataType::parse(node.text_or("out_dtype", "FLOAT32"));
    return of_type(Result<DataType>(type).take(text_of(node) + ": out_dtype"));
  }

  ValueType container(const Node& node, const std::string& value) const {
    ElementType type = element_type(value);
    if (!is_integer(type) && node.has_input(2)) type = element_type(node.inputs[2]);
    if (!is_integer(type)) return exact_ ? of_type(exact_data_type(type)) : ValueType();
    return of_type(exact_data_type(type));
  }

  /// SCALEDINT of the container's width, or of what a Clip before it leaves.
  ValueType dequantized(const Node& node) const {
    const ValueType codes = in(node, 0);
    if (!exact_) {
      const ElementType type = node.has_input(0) ? element_type(node.inputs[0]) : ElementType::kUnknown;
      return is_integer(type) ? ValueType{.type = DataType::scaled(static_cast<int>(info(type).bits))}
                              : ValueType();
    }
    if (codes.type.is_float()) return codes;
    const auto scale = parameter(node, 1), zero = parameter(node, 2);
    const double shift = zero && !zero->values.empty() ? zero->values[0] : 0;
    const bool same_shift = !node.has_input(2) || (zero && all_are(*zero, shift));
    ValueType made{.type = DataType::scaled(codes.type.bits())};
    if (!codes.levels || !same_shift || std::trunc(shift) != shift) return made;
    made.levels = shifted(*codes.levels, shift);
    made.levels->one_scale = scale && scale->values.size() == 1;
    made.levels->scale = one_of(scale);
    if (scale && all_are(*scale, 1)) {
      made.type = shift == 0 ? codes.type : DataType::least_integer(made.levels->low, made.levels->high);
    }
    return made;
  }

  ValueType concatenated(const Node& node) const {
    ValueType made = in(node, 0);
    std::optional<Levels> levels = made.levels;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      const ValueType other = in(node, i);
      if (levels && other.levels && same_grid(*levels, *other.levels)) {
        levels = ranged(*levels, std::min(levels->low, other.levels->low),
                        std::max(levels->high, other.levels->high));
      } else {
        levels.reset();
      }
      if (other == made) continue;
      if (other.type.is_integer() && made.type.is_integer()) {
        made = of_type(DataType::least_integer(std::min(*other.type.min(), *made.type.min()),
                                               std::max(*other.type.max(), *made.type.max())));
      } else if (is_scaled_integer(other.type) && is_scaled_integer(made.type)) {
        made = {.type = DataType::scaled(std::max(other.type.bits(), made.type.bits()))};
      } else {
        return {};
      }
    }
    if (node.inputs.size() > 1) made.levels = levels;
    return made;
  }

  /// A Clip of whole numbers leaves as many bits as the range takes.
  ValueType clipped(const Node& node) const {
    ValueType made = in(node, 0);
    if (!made.type.is_integer()) return {.type = made.type};
    const auto bound = [&](std::size_t i, const char* name, double otherwise) {
      if (node.has(name)) return static_cast<double>(node.float_or(name, 0));
      const auto found = parameter(node, i);
      return found && found->values.size() == 1 ? found->values[0] : otherwise;
    };
    const double low = std::max(*made.type.min(), std::ceil(bound(1, "min", -INFINITY)));
    const double high = std::min(*made.type.max(), std::floor(bound(2, "max", INFINITY)));
    if (!(low <= high)) return made;
    const DataType least = DataType::least_integer(low, high);
    if (least.bits() < made.type.bits()) made.type = least;
    made.levels = {.low = low, .high = high, .bits = made.type.bits(), .is_signed = low < 0, .scale = 1};
    return made;
  }

  /// Zeros are added, which must be among the values.
  ValueType padded(const Node& node) const {
    ValueType made = in(node, 0);
    const auto number = node.has_input(2) ? parameter(node, 2) : std::nullopt;
    const double pad = number && number->values.size() == 1 ? number->values[0] : node.float_or("value", 0);
    const bool constant = node.text_or("mode", "constant") == "constant";
    if (!constant || (pad == 0 && made.type.allows(0) && !(made.levels && made.levels->halves))) {
      if (constant && made.levels)
        made.levels = ranged(*made.levels, std::min(made.levels->low, 0.0), std::max(made.levels->high, 0.0));
      return made;
    }
    if (made.type.is_integer() && pad == 0) return of_type(DataType::ternary());
    return made.type.is_integer() && made.type.allows(pad) ? made : ValueType();
  }

  static ValueType rectified(ValueType made) {
    if (made.levels) made.levels->low = std::max(made.levels->low, 0.0);
    if (made.reach) made.reach = Reach{std::max(made.reach->low, 0.0), std::max(made.reach->high, 0.0)};
    if (made.type == DataType::bipolar()) return of_type(DataType::integer(1, false));
    return made;
  }

  const Graph& graph_;
  const ConstantValues& constants_;
  bool exact_;
  const InputRanges& given_;
  std::map<std::string, ValueType> types_;
};

/// What the numbers of a constant need; the type it is known to have where that holds them.
std::optional<DataType> integer_type_of(const ConstantValue& constant, const DataType& known) {
  const auto& values = constant.values;
  if (known.is_integer() && std::ranges::all_of(values, [&](double v) { return known.allows(v); }))
    return known;
  double low = 0, high = 0;
  for (const double value : values) {
    if (!std::isfinite(value) || std::trunc(value) != value) return {};
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const DataType least = DataType::least_integer(low, high);
  return least.is_integer() ? std::optional(least) : std::nullopt;
}

}  // namespace

std::map<std::string, ValueType> infer_data_types(const Graph& graph, const ConstantValues& constants,
                                                  TypeRules rules, const InputRanges& given) {
  return Inference(graph, constants, rules, given).run();
}

Graph annotate_integers(Graph graph) {
  const ConstantValues constants(graph);
  const auto types = infer_data_types(graph, constants, TypeRules::kExact);
  for (auto& [name, value] : graph.values) value.annotations.erase(kAnnotation);
  for (const auto& [name, known] : types) {
    const Tensor* constant = graph.constant(name);
    const ElementType container = constant ? constant->type() : graph.values[name].type;
    // Integer types say it themselves, and qonnx cannot round truths.
    if (is_integer(container) || container == ElementType::kBool) continue;
    std::optional<DataType> type;
    if (known.type.is_integer()) type = known.type;
    if (constants.is_constant(name) && known.type.is_integer()) {
      const auto values = constants.find(name);
      type = values ? integer_type_of(*values, known.type) : std::nullopt;
    }
    if (type) graph.values[name].annotations[kAnnotation] = type->name();
  }
  return graph;
}

}  // namespace crumb::graph
