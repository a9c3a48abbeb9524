#include "export/lint/lattice.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "export/lint/subject.h"
#include "formats/number/power_of_two.h"
#include "graph/datatypes.h"

namespace crumb::exporting {
namespace {

using Exponent = std::optional<int>;

bool is_one_of(const Node& node, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return node.op == name; });
}

/// What every number is a multiple of; zeros alone are multiples of anything, here of one. Nothing where one
/// is not finite.
Exponent common(const std::vector<float>& numbers) {
  Exponent all;
  for (const float number : numbers) {
    if (!std::isfinite(number)) return {};
    if (number != 0) all = std::min(all.value_or(lowest_bit(number)), lowest_bit(number));
  }
  return all.value_or(0);
}

class Lattice {
 public:
  explicit Lattice(const Graph& graph) : graph_(graph) {}

  std::map<std::string, int> run() {
    for (const std::string& input : graph_.inputs) {
      if (are_integers(input)) exponents_[input] = 0;
    }
    for (const Node& node : graph_.nodes) {
      if (node.outputs.empty() || output_of(node).empty()) continue;
      if (const Exponent made = made_by(node)) exponents_[output_of(node)] = *made;
    }
    return std::move(exponents_);
  }

 private:
  /// By the annotation of an input of the graph.
  bool are_integers(const std::string& input) const {
    const Value* value = graph_.find(input);
    if (!value || !value->annotations.contains("finn_datatype")) return false;
    const auto type = graph::DataType::parse(value->annotations.at("finn_datatype"));
    return type.ok() && type.value().is_integer();
  }

  Exponent of(const Node& node, std::size_t i) {
    if (!node.has_input(i)) return {};
    const auto known = exponents_.find(node.inputs[i]);
    if (known != exponents_.end()) return known->second;
    const Tensor* constant = constant_input(graph_, node, i);
    if (!constant || constant->type() != graph::ElementType::kFloat) return {};
    const Exponent found = common(constant->to_floats());
    if (found) exponents_[node.inputs[i]] = *found;
    return found;
  }

  Exponent least(const Node& node, std::size_t count) {
    Exponent all = of(node, 0);
    for (std::size_t i = 1; i < count && all; ++i) {
      const Exponent one = of(node, i);
      all = one ? Exponent(std::min(*all, *one)) : std::nullopt;
    }
    return all;
  }

  Exponent product(const Node& node) {
    const Exponent a = of(node, 0), b = of(node, 1);
    return a && b ? Exponent(*a + *b) : std::nullopt;
  }

  /// Codes times scales. A zero point that is no whole number leaves the multiples of the scale.
  Exponent quantized(const Node& node) {
    const auto zero = uniform(constant_input(graph_, node, kZeropt));
    const auto bits = uniform(constant_input(graph_, node, kBits));
    const bool is_whole = zero && std::trunc(*zero) == *zero && bits && std::trunc(*bits) == *bits;
    const Tensor* scale = constant_input(graph_, node, kScale);
    if (!(is_bipolar(node) || is_whole) || !scale || scale->type() != graph::ElementType::kFloat) return {};
    const auto is_power = [](float value) { return exponent_of(std::fabs(value)).has_value(); };
    return std::ranges::all_of(scale->to_floats(), is_power) ? of(node, kScale) : std::nullopt;
  }

  static Exponent counted(const Node& node) {
    return common({node.float_or("out_scale", 1), node.float_or("out_bias", 0)});
  }

  Exponent made_by(const Node& node) {
    if (is_quant(node) || is_bipolar(node)) return quantized(node);
    if (is_thresholds(node)) return counted(node);
    if (node.is("MaxPoolNHWC", kQonnxDomain)) return of(node, 0);
    const bool is_conv = convolves(node);
    if (!node.domain.empty() && !is_conv) return {};
    if (is_one_of(node, {"Relu", "MaxPool", "Flatten", "Reshape", "Transpose", "Identity", "Dropout",
                         "Squeeze", "Unsqueeze", "Neg", "Abs", "GlobalMaxPool"})) {
      return of(node, 0);
    }
    if (is_one_of(node, {"Add", "Sub"})) return least(node, 2);
    if (is_one_of(node, {"Concat"})) return least(node, node.inputs.size());
    if (is_one_of(node, {"Mul", "MatMul"})) return product(node);
    if (!is_conv) return {};
    const Exponent sum = product(node);
    if (!node.has_input(2)) return sum;
    const Exponent bias = of(node, 2);
    return sum && bias ? Exponent(std::min(*sum, *bias)) : std::nullopt;
  }

  const Graph& graph_;
  std::map<std::string, int> exponents_;
};

}  // namespace

std::map<std::string, int> lattice_of(const graph::Graph& graph) { return Lattice(graph).run(); }

}  // namespace crumb::exporting
