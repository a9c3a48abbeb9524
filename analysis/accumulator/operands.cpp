#include "analysis/accumulator/operands.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/files/text.h"
#include "graph/operator_traits.h"

namespace crumb::analysis {
namespace {

constexpr double kMostInput = 4503599627370496;  // 2^52

/// Behind these the node to be named is one before.
bool hands_on(const graph::Node& node) {
  return is_any(node, graph::trait::kMoves | graph::trait::kPicks) || node.is("Relu");
}

IntegerRange in_units(const graph::Levels& levels) {
  return {static_cast<std::int64_t>(std::floor(levels.low / levels.unit())),
          static_cast<std::int64_t>(std::ceil(levels.high / levels.unit()))};
}

/// What an integer type holds.
std::optional<graph::Levels> levels_of_type(graph::ElementType type) {
  const graph::DataType data_type = exact_data_type(type);
  if (!data_type.is_integer()) return {};
  return graph::Levels{.low = *data_type.min(), .high = *data_type.max(), .scale = 1};
}

bool is_narrow(const graph::Levels& levels) {
  return std::fabs(levels.low / levels.unit()) <= kMostInput &&
         std::fabs(levels.high / levels.unit()) <= kMostInput;
}

}  // namespace

IntegerRange OperandRange::hull() const {
  IntegerRange all = cases.at(0);
  for (const IntegerRange& one : cases) all = {std::min(all.low, one.low), std::max(all.high, one.high)};
  return all;
}

OperandReader::OperandReader(const graph::Graph& graph, const graph::ConstantValues& constants,
                             const std::map<std::string, graph::ValueType>& types, const graph::Links& links)
    : graph_(graph), constants_(constants), types_(types), links_(links) {}

std::optional<graph::Levels> OperandReader::levels_of(const std::string& value) const {
  const auto found = types_.find(value);
  return found == types_.end() ? std::nullopt : found->second.levels;
}

std::string OperandReader::why_unknown(const std::string& value) const {
  if (constants_.is_constant(value))
    return "its operand " + quote_text(value) + " is a constant, and its weight is computed";
  std::string at = value;
  for (std::size_t producer = links_.producer(at); producer != graph::Links::kNone;
       producer = links_.producer(at)) {
    const graph::Node& node = graph_.nodes[producer];
    if (!hands_on(node) || !node.has_input(0) || levels_of(node.inputs[0])) {
      return "no quantizer of one constant scale stands before it: " + text_of(node) + " makes " +
             quote_text(at);
    }
    at = node.inputs[0];
  }
  return "the graph's input " + quote_text(at) +
         " has neither a quantizer nor a finn_datatype; give its range with --input-range NAME=lo:hi";
}

std::string OperandReader::changed_by(const std::string& value) const {
  std::string at = value;
  for (std::size_t producer = links_.producer(at); producer != graph::Links::kNone;
       producer = links_.producer(at)) {
    const graph::Node& node = graph_.nodes[producer];
    const auto now = levels_of(at);
    if (!now || is_quantizer(node)) return {};
    const std::string* same = nullptr;
    bool any = false;
    for (const std::string& input : node.inputs) {
      const auto before = input.empty() || constants_.is_constant(input) ? std::nullopt : levels_of(input);
      any = any || before.has_value();
      if (before && before->low == now->low && before->high == now->high && before->unit() == now->unit())
        same = &input;
    }
    if (!any) return {};
    if (!same) return text_of(node);
    at = *same;
  }
  return {};
}

/// Whether the scale is computed, and yet one for all terms of a sum over the last axis: of a quantizer right
/// before, one number for each run along it.
bool OperandReader::is_of_tokens(const std::string& value) const {
  const std::size_t producer = links_.producer(value);
  if (producer == graph::Links::kNone || !is_quantizer(graph_.nodes[producer])) return false;
  const std::string& scale = graph_.nodes[producer].inputs.at(1);
  const auto shape = graph_.shape_of(scale);
  return !constants_.is_constant(scale) && shape && (shape->empty() || shape->back() == graph::Dim(1));
}

/// The least and the greatest zero point.
std::optional<graph::Levels> OperandReader::zeros_of(const std::string& value) const {
  if (value.empty()) return graph::Levels{};
  if (constants_.is_constant(value)) {
    const auto constant = constants_.find(value);
    if (!constant || constant->values.empty()) return {};
    const auto [low, high] = std::ranges::minmax(constant->values);
    return graph::Levels{.low = low, .high = high};
  }
  if (const auto levels = levels_of(value)) return levels;
  const graph::Value* known = graph_.find(value);
  return known ? levels_of_type(known->type) : std::nullopt;
}

OperandRange OperandReader::find(const std::string& value, const std::string& zero, bool by_token,
                                 bool is_integer_operand) const {
  OperandRange made;
  auto levels = levels_of(value);
  if (!levels && is_integer_operand && !constants_.is_constant(value)) {
    const graph::Value* known = graph_.find(value);
    if (known) levels = levels_of_type(known->type);
  }
  if (!levels) {
    made.failure = why_unknown(value);
    return made;
  }
  if (!levels->one_scale && !(by_token && is_of_tokens(value))) {
    made.failure = "its input " + quote_text(value) + " has several scales, and so no one sum of integers";
    return made;
  }
  const auto zeros = zeros_of(zero);
  if (!zeros || !is_narrow(*zeros)) {
    made.failure =
        "the zero point " + quote_text(zero) + " of its input " + quote_text(value) + " is not known";
    return made;
  }
  if (!is_narrow(*levels)) {
    made.failure = "the range of its input " + quote_text(value) + " is more than 52 bits wide";
    return made;
  }
  const IntegerRange range = in_units(*levels), by = in_units(*zeros);
  made.cases = {{range.low - by.low, range.high - by.low}};
  if (by.high != by.low) made.cases.push_back({range.low - by.high, range.high - by.high});
  made.unit = levels->unit();
  made.scale = levels->scale;
  made.assumed = levels->assumed || zeros->assumed;
  return made;
}

}  // namespace crumb::analysis
