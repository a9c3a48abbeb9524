#include "graph/facts/range_rules.h"

#include <algorithm>
#include <iterator>

#include "graph/facts/constant_operators.h"
#include "graph/facts/usual_types.h"

namespace crumb::graph {
namespace {

struct Row {
  RangeForm form;
  RangeRule rule;
};

constexpr Row kRules[] = {
    {RangeForm::kMagnitude, magnitude},
    {RangeForm::kAdded, added},
    {RangeForm::kAveraged, averaged},
    {RangeForm::kCast, cast},
    {RangeForm::kClipped, clipped},
    {RangeForm::kMoved, moved},
    {RangeForm::kConcatenated, concatenated},
    {RangeForm::kConstantNode, constant_node},
    {RangeForm::kDequantizedLinearly, dequantized_linearly},
    {RangeForm::kDivided, divided},
    {RangeForm::kDroppedOut, dropped_out},
    {RangeForm::kQuantizedDynamically, quantized_dynamically},
    {RangeForm::kAveragedAll, averaged_all},
    {RangeForm::kReducedToOne, reduced_to_one},
    {RangeForm::kLeaky, leaky},
    {RangeForm::kLargest, largest},
    {RangeForm::kMaxPooled, max_pooled},
    {RangeForm::kSummedUp, summed_up},
    {RangeForm::kSmallest, smallest},
    {RangeForm::kMultiplied, multiplied},
    {RangeForm::kNegative, negative},
    {RangeForm::kParametric, parametric},
    {RangeForm::kPadded, padded},
    {RangeForm::kQuantizedProduct, quantized_product},
    {RangeForm::kQuantizedLinearly, quantized_linearly},
    {RangeForm::kReducedToMean, reduced_to_mean},
    {RangeForm::kReducedToSum, reduced_to_sum},
    {RangeForm::kRectified, rectified},
    {RangeForm::kResized, resized},
    {RangeForm::kScattered, scattered},
    {RangeForm::kSign, sign},
    {RangeForm::kSubtracted, subtracted},
    {RangeForm::kTriangle, triangle},
    {RangeForm::kChosen, chosen},
    {RangeForm::kBipolarQuantizer, bipolar_quantizer},
    {RangeForm::kFloatQuantizer, float_quantizer},
    {RangeForm::kLoweredToColumns, lowered_to_columns},
    {RangeForm::kIntegerQuantizer, integer_quantizer},
    {RangeForm::kThresholds, thresholds},
    {RangeForm::kQuantizedAverage, quantized_average},
    {RangeForm::kTruncated, truncated},
};

/// Whether there is one rule for each form but kUnknown, in their order.
constexpr bool is_complete() {
  for (std::size_t i = 0; i < std::size(kRules); ++i) {
    if (static_cast<std::size_t>(kRules[i].form) != i + 1) return false;
  }
  return kRules[std::size(kRules) - 1].form == RangeForm::kTruncated;
}
static_assert(is_complete());

}  // namespace

RangeRule find_range_rule(const Node& node, std::size_t output) {
  const OperatorTraits& row = traits_of(node);
  const bool speaks = output == 0 || row.is(trait::kAllOutputs);
  if (row.range == RangeForm::kUnknown || !speaks || is_opaque(node)) return nullptr;
  return kRules[static_cast<std::size_t>(row.range) - 1].rule;
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
