#include "graph/facts/range_rules.h"

#include <algorithm>
#include <iterator>

#include "graph/facts/constant_operators.h"
#include "graph/facts/usual_types.h"

namespace crumb::graph {
namespace {

constexpr std::string_view kQ = kQonnxDomain, kLast = kChannelsLastDomain;
constexpr std::size_t kAll = ~std::size_t{0};

constexpr RangeRow kRows[] = {
    {"", "Abs", magnitude},
    {"", "Add", added},
    {"", "AveragePool", averaged},
    {"", "Cast", cast},
    {"", "Clip", clipped},
    {"", "Compress", moved},
    {"", "Concat", concatenated},
    {"", "Constant", constant_node},
    {"", "DepthToSpace", moved},
    {"", "DequantizeLinear", dequantized_linearly},
    {"", "Div", divided},
    {"", "Dropout", dropped_out},
    {"", "DynamicQuantizeLinear", quantized_dynamically},
    {"", "Expand", moved},
    {"", "Flatten", moved},
    {"", "Gather", moved},
    {"", "GatherElements", moved},
    {"", "GatherND", moved},
    {"", "GlobalAveragePool", averaged_all},
    {"", "GlobalMaxPool", reduced_to_one},
    {"", "Identity", moved},
    {"", "LeakyRelu", leaky},
    {"", "Max", largest},
    {"", "MaxPool", max_pooled},
    {"", "Mean", summed_up},
    {"", "Min", smallest},
    {"", "Mul", multiplied},
    {"", "Neg", negative},
    {"", "PRelu", parametric},
    {"", "Pad", padded},
    {"", "QLinearConv", quantized_product},
    {"", "QLinearMatMul", quantized_product},
    {"", "QuantizeLinear", quantized_linearly},
    {"", "ReduceMax", reduced_to_one},
    {"", "ReduceMean", reduced_to_mean},
    {"", "ReduceMin", reduced_to_one},
    {"", "ReduceSum", reduced_to_sum},
    {"", "Relu", rectified},
    {"", "Reshape", moved},
    {"", "Resize", resized},
    {"", "ReverseSequence", moved},
    {"", "Scatter", scattered},
    {"", "ScatterElements", scattered},
    {"", "ScatterND", scattered},
    {"", "Sign", sign},
    {"", "Slice", moved},
    {"", "SpaceToDepth", moved},
    {"", "Split", moved, kAll},
    {"", "Squeeze", moved},
    {"", "Sub", subtracted},
    {"", "Sum", summed_up},
    {"", "Tile", moved},
    {"", "TopK", moved},
    {"", "Transpose", moved},
    {"", "Trilu", triangle},
    {"", "Unsqueeze", moved},
    {"", "Upsample", resized},
    {"", "Where", chosen},
    {kQ, "BipolarQuant", bipolar_quantizer},
    {kQ, "FloatQuant", float_quantizer},
    {kQ, "Im2Col", lowered_to_columns},
    {kQ, "IntQuant", integer_quantizer},
    {kQ, "MaxPoolNHWC", max_pooled},
    {kQ, "MultiThreshold", thresholds},
    {kQ, "Quant", integer_quantizer},
    {kQ, "QuantAvgPool2d", quantized_average},
    {kQ, "Trunc", truncated},
    {kLast, "MaxPool", max_pooled},
};

}  // namespace

std::span<const RangeRow> range_rows() { return kRows; }

const RangeRow* find_range_row(const Node& node) {
  const auto* found =
      std::ranges::find_if(kRows, [&](const RangeRow& row) { return node.is(row.op, row.domain); });
  return found == std::end(kRows) ? nullptr : found;
}

ValueType RangeCall::in(std::size_t i) const {
  if (!has(i)) return {};
  const auto found = types_.find(node_.inputs[i]);
  return found == types_.end() ? ValueType() : found->second;
}

std::optional<ConstantValue> RangeCall::constant(std::size_t i) const {
  return has(i) ? constants_.find(node_.inputs[i]) : std::nullopt;
}

std::optional<double> RangeCall::number(std::size_t i) const {
  const auto found = constant(i);
  return found && found->values.size() == 1 ? std::optional(found->values[0]) : std::nullopt;
}

ElementType RangeCall::element_in(std::size_t i) const {
  return has(i) ? element_type_in(graph_, node_.inputs[i]) : ElementType::kUnknown;
}

ElementType RangeCall::element_made() const { return element_type_in(graph_, node_.outputs[output_]); }

std::optional<Shape> RangeCall::shape_in(std::size_t i) const {
  return has(i) ? graph_.shape_of(node_.inputs[i]) : std::nullopt;
}

bool RangeCall::computes_in_float() const {
  const ElementType type = element_made();
  return type == ElementType::kFloat || type == ElementType::kDouble;
}

std::optional<Levels> RangeCall::levels_on(std::size_t i, const Levels& grid) const {
  if (const auto values = is_constant(i) ? constant(i) : std::nullopt) {
    Levels plain = grid;
    plain.assumed = false;
    return on_grid(plain, values->values);
  }
  const ValueType known = in(i);
  return known.levels && same_grid(*known.levels, grid) ? known.levels : std::nullopt;
}

std::optional<Levels> RangeCall::grid_of(std::size_t first, std::size_t last) const {
  for (std::size_t i = first; i < last; ++i) {
    const ValueType known = in(i);
    if (known.levels && !is_constant(i) && known.levels->one_scale && known.levels->scale)
      return known.levels;
  }
  return last > first ? in(first).levels : std::nullopt;
}

DataType joined_type(const DataType& a, const DataType& b) {
  if (a == b) return a;
  if (a.is_integer() && b.is_integer())
    return DataType::least_integer(std::min(*a.min(), *b.min()), std::max(*a.max(), *b.max()));
  if (is_scaled_integer(a) && is_scaled_integer(b)) return DataType::scaled(std::max(a.bits(), b.bits()));
  return {};
}

}  // namespace crumb::graph
