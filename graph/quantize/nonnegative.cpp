#include <algorithm>
#include <cmath>
#include <map>

#include "graph/edit.h"
#include "graph/operator_traits.h"
#include "graph/quantize/operators.h"

namespace crumb::graph {
namespace {

bool is_number(ElementType type) { return is_float(type) || is_integer(type) || type == ElementType::kBool; }

bool has_none_below_0(const Tensor& constant) {
  return is_number(constant.type()) &&
         std::ranges::all_of(constant.to_floats(), [](float x) { return x >= 0; });
}

bool has_no_sign(ElementType type) {
  return info(type).kind == ElementKind::kBool || info(type).kind == ElementKind::kUnsigned;
}

/// Returns the number that an input is, or an attribute in older operator sets; NaN where there is none.
float parameter(const Graph& graph, const Node& node, std::size_t input, const std::string& attribute) {
  if (const Tensor* constant = constant_input(graph, node, input); constant && constant->size() == 1)
    return constant->to_floats()[0];
  return node.has_input(input) ? NAN : node.float_or(attribute, NAN);
}

class Signs {
 public:
  Signs(const Graph& graph, const Links& links) : graph_(graph), links_(links) {}

  bool is_nonnegative(const std::string& value) {
    const auto [found, is_new] = known_.emplace(value, false);
    if (!is_new) return found->second;
    return known_[value] = find(value);
  }

 private:
  bool find(const std::string& value) {
    if (const Tensor* constant = graph_.constant(value)) return has_none_below_0(*constant);
    if (has_no_sign(type_of(value))) return true;
    const std::size_t producer = links_.producer(value);
    if (producer == Links::kNone) return false;
    const Node& node = graph_.nodes[producer];
    if (is_any(node, trait::kNonNegative) || cannot_be_below_0(node)) return true;
    if (is_any(node, trait::kPicks) || moves_elements(graph_, node)) return is_nonnegative(node.inputs[0]);
    const bool cubes = node.is("Resize") && node.text_or("mode", "nearest") == "cubic";
    const bool keeps = is_any(node, trait::kKeepsNonNegative) || (node.is("Resize") && !cubes);
    const bool changes_sign =
        (node.is("Gemm") && (node.float_or("alpha", 1) < 0 || node.float_or("beta", 1) < 0)) ||
        (node.is("Pad") && node.float_or("value", 0) < 0);
    if (!keeps || changes_sign) return false;
    if (node.is("Pow") || node.is("PRelu") || node.is("Resize")) return is_nonnegative(node.inputs[0]);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.has_input(i) && !is_setting(node, i) && !is_nonnegative(node.inputs[i])) return false;
    return true;
  }

  /// Whether no input can make it negative: squares, values clipped from below, and the larger of a value and
  /// one that is not below 0.
  bool cannot_be_below_0(const Node& node) {
    if (node.is("Mul")) return node.inputs.at(0) == node.inputs.at(1);
    if (node.is("Clip")) return parameter(graph_, node, 1, "min") >= 0;
    if (node.is("Max"))
      return std::ranges::any_of(node.inputs, [&](const auto& x) { return is_nonnegative(x); });
    return node.is("Pow") && std::fmod(parameter(graph_, node, 1, ""), 2.0F) == 0;
  }

  ElementType type_of(const std::string& value) const {
    if (const Tensor* constant = graph_.constant(value)) return constant->type();
    const Value* known = graph_.find(value);
    return known ? known->type : ElementType::kUnknown;
  }

  /// Whether the input is axes, sizes and the like: integers where the data is float.
  bool is_setting(const Node& node, std::size_t input) const {
    return input > 0 && is_integer(type_of(node.inputs[input])) && is_float(type_of(node.inputs[0]));
  }

  const Graph& graph_;
  const Links& links_;
  std::map<std::string, bool> known_;
};

}  // namespace

bool is_nonnegative(const Graph& graph, const Links& links, const std::string& value) {
  return Signs(graph, links).is_nonnegative(value);
}

}  // namespace crumb::graph
