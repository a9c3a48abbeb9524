#include "analysis/accumulator/product_operators.h"

#include <algorithm>
#include <set>

namespace crumb::analysis {
namespace {

/// Labels of one operand, without blanks and with one '.' for an ellipsis.
std::string labels_of(std::string_view text) {
  std::string labels;
  for (const char c : text) {
    if (c != ' ' && !(c == '.' && labels.ends_with('.'))) labels += c;
  }
  return labels;
}

/// What an equation without "->" leaves: an ellipsis, and the labels that stand once, in alphabetical order.
std::string implied_result(const std::string& operands) {
  std::string out;
  for (const char c : std::set<char>(operands.begin(), operands.end())) {
    if (c == '.' || std::ranges::count(operands, c) == 1) out += c;
  }
  return out;  // '.' comes before the letters
}

}  // namespace

std::optional<std::string> why_unknown_operator(const graph::Node& node) {
  const graph::OperatorTraits& traits = graph::traits_of(node);
  if (!traits.products.empty() || traits.is(graph::trait::kNoProducts)) return {};
  if (is_opaque(node)) return "what the graph inside of it adds up is not counted";
  return "what this operator adds up is not known";
}

std::vector<bool> Contraction::summed_axes(const std::string& labels, std::size_t rank) const {
  std::vector<bool> axes;
  for (const char label : labels) {
    const std::size_t count = label == '.' ? rank - std::min(rank, labels.size() - 1) : 1;
    axes.insert(axes.end(), count, summed.find(label) != std::string::npos);
  }
  axes.resize(rank, false);
  return axes;
}

Result<Contraction> contraction_of(const graph::Node& node) {
  const std::string equation = node.text_or("equation", "");
  const std::size_t arrow = equation.find("->"), comma = equation.find(',');
  const std::string operands = equation.substr(0, arrow);
  if (node.inputs.size() != 2 || std::ranges::count(operands, ',') != 1)
    return Failure{"its equation '" + equation + "' has other than two operands"};
  Contraction made{.a = labels_of(operands.substr(0, comma)),
                   .b = labels_of(operands.substr(comma + 1)),
                   .out = {},
                   .summed = {}};
  made.out =
      arrow == std::string::npos ? implied_result(made.a + made.b) : labels_of(equation.substr(arrow + 2));
  for (const std::string* labels : {&made.a, &made.b}) {
    for (const char label : *labels) {
      if (std::ranges::count(*labels, label) > 1)
        return Failure{"its equation '" + equation + "' takes a diagonal of an operand"};
      if (made.out.find(label) != std::string::npos || made.summed.find(label) != std::string::npos) continue;
      if (made.a.find(label) == std::string::npos || made.b.find(label) == std::string::npos || label == '.')
        return Failure{"its equation '" + equation + "' sums one operand alone over '" +
                       std::string(1, label) + "'"};
      made.summed += label;
    }
  }
  return made;
}

}  // namespace crumb::analysis
