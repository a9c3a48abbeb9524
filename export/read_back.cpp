#include "export/read_back.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/files/text.h"
#include "base/text/ascii_case.h"
#include "export/lint/subject.h"
#include "graph/quantized_constant.h"
#include "graph/strided_index.h"
#include "quant/code_grid.h"

namespace crumb::exporting {
namespace {

using graph::ConstantValue;
using graph::ConstantValues;

constexpr const char* kMark = "crumb_mark";
constexpr std::size_t kMostAxes = 6;  // whose orders are tried

std::vector<double> without_repeats(std::vector<double> values) {
  if (!values.empty() && std::ranges::all_of(values, [&](double value) { return value == values[0]; })) {
    values.resize(1);
  }
  return values;
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool same_numbers(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, same_number);
}

/// "element 5 is 3, expected 2".
std::string first_difference(const std::vector<double>& meant, const std::vector<double>& found) {
  if (meant.size() != found.size()) {
    return std::to_string(found.size()) + " elements, expected " + std::to_string(meant.size());
  }
  for (std::size_t i = 0; i < meant.size(); ++i) {
    if (same_number(meant[i], found[i])) continue;
    return "element " + std::to_string(i) + " is " + number_text(found[i]) + ", expected " +
           number_text(meant[i]);
  }
  return "";
}

/// What of `found` is not as meant; empty where all is.
std::string difference(const QuantizerMeaning& meant, const QuantizerMeaning& found) {
  if (meant.op != found.op) return "it is a " + found.op + ", expected a " + meant.op;
  if (meant.is_signed != found.is_signed || meant.narrow != found.narrow) return "signed or narrow differ";
  if (meant.rounding != found.rounding) {
    return "rounding_mode is " + found.rounding + ", expected " + meant.rounding;
  }
  if (meant.constant.has_value() != found.constant.has_value()) {
    return meant.constant ? "it quantizes no constant" : "it quantizes a constant";
  }
  if (meant.constant) {
    if (meant.constant->shape != found.constant->shape) return "the constant has another shape";
    if (auto text = first_difference(meant.constant->levels, found.constant->levels); !text.empty()) {
      return "integers (less the zero point): " + text;
    }
    if (auto text = first_difference(meant.constant->values, found.constant->values); !text.empty()) {
      return "values: " + text;
    }
  }
  if (meant.parameters.size() != found.parameters.size()) return "it has another number of inputs";
  for (std::size_t i = 0; i < meant.parameters.size(); ++i) {
    if (auto text = first_difference(meant.parameters[i], found.parameters[i]); !text.empty()) {
      return "input " + std::to_string(i + 1) + ": " + text;
    }
  }
  return "";
}

[[noreturn]] void fail(const std::string& node, const std::string& text) {
  throw Error(node + " does not mean in the file what was meant: " + text);
}

QuantizerMeaning meaning_of(const ConstantValues& constants, const Node& node) {
  QuantizerMeaning meaning{.node = text_of(node),
                           .op = node.op == "IntQuant" ? "Quant" : node.op,
                           .is_signed = node.int_or("signed", 1) != 0,
                           .narrow = node.int_or("narrow", 0) != 0,
                           .rounding = upper_case(node.text_or("rounding_mode", "ROUND"))};
  if (meaning.rounding == "HALF_EVEN") meaning.rounding = "ROUND";
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const auto parameter = constants.find(node.inputs[i]);
    meaning.parameters.push_back(parameter ? without_repeats(parameter->values) : std::vector<double>{});
  }
  if (is_thresholds(node))
    meaning.parameters.push_back({node.float_or("out_scale", 1), node.float_or("out_bias", 0)});
  if (node.has_input(0) && constants.is_constant(node.inputs[0])) {
    meaning.constant = constants.find(node.outputs[0]);
  }
  return meaning;
}

/// The rows of a matrix, sorted.
template <class Values>
std::vector<std::vector<double>> sorted_rows(const Values& values, std::int64_t columns) {
  std::vector<std::vector<double>> rows;
  for (auto at = values.begin(); at != values.end() && columns > 0; at += columns) {
    rows.emplace_back(at, at + columns);
  }
  std::ranges::sort(rows);
  return rows;
}

/// Whether the elements are the same, perhaps with the axes in another order, or with the rows of a matrix in another:
/// what goes into a dense layer may be laid out with its channels last.
bool same_elements(const ConstantValue& a, const ConstantValue& b) {
  if (a.values.size() != b.values.size()) return false;
  if (a.shape == b.shape && same_numbers(a.values, b.values)) return true;
  if (a.shape.size() != b.shape.size() || a.shape.size() > kMostAxes) return same_numbers(a.values, b.values);
  const std::vector<float> values(a.values.begin(), a.values.end());
  std::vector<std::int64_t> axes(a.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  do {
    if (graph::permuted_shape(a.shape, axes) != b.shape) continue;
    const std::vector<float> moved = graph::permuted(values, a.shape, axes);
    if (std::ranges::equal(moved, b.values, [](float x, double y) { return same_number(x, y); })) return true;
    if (axes.size() == 2 && sorted_rows(moved, b.shape[1]) == sorted_rows(b.values, b.shape[1])) return true;
  } while (std::ranges::next_permutation(axes).found);
  return false;
}

}  // namespace

std::vector<QuantizerMeaning> meanings_of(const Graph& graph) {
  const ConstantValues constants(graph);
  std::vector<QuantizerMeaning> meanings;
  for (const Node& node : graph.nodes) {
    if (is_qonnx_quantizer(node) || is_thresholds(node)) meanings.push_back(meaning_of(constants, node));
  }
  return meanings;
}

void expect_same(const std::vector<QuantizerMeaning>& meant, const std::vector<QuantizerMeaning>& found,
                 bool in_order) {
  if (meant.size() != found.size()) {
    throw Error("the file has " + std::to_string(found.size()) + " quantizers, expected " +
                std::to_string(meant.size()));
  }
  if (in_order) {
    for (std::size_t i = 0; i < meant.size(); ++i) {
      if (auto text = difference(meant[i], found[i]); !text.empty()) fail(found[i].node, text);
    }
    return;
  }
  std::vector<bool> taken(found.size());
  for (const QuantizerMeaning& one : meant) {
    std::string nearest = "no quantizer in the file is like it";
    bool is_there = false;
    for (std::size_t i = 0; i < found.size() && !is_there; ++i) {
      if (taken[i]) continue;
      const std::string text = difference(one, found[i]);
      if (text.empty()) taken[i] = is_there = true;
      if (found[i].node == one.node) nearest = text;
    }
    if (!is_there) fail(one.node, nearest);
  }
}

Graph marked(Graph graph) {
  std::int64_t next = 0;
  for (Node& node : graph.nodes) {
    if (is_qonnx_quantizer(node)) node.attributes[kMark] = next++;
  }
  return graph;
}

Graph unmarked(Graph graph) {
  for (Node& node : graph.nodes) node.attributes.erase(kMark);
  return graph;
}

void expect_same_constants(const Graph& before, const Graph& after) {
  const ConstantValues old_values(before), new_values(after);
  std::map<std::int64_t, std::string> made;  // mark -> value
  for (const Node& node : before.nodes) {
    if (node.has(kMark) && old_values.is_constant(node.outputs[0])) {
      made[node.int_or(kMark, 0)] = node.outputs[0];
    }
  }
  for (const Node& node : after.nodes) {
    if (!is_qonnx_quantizer(node)) continue;
    const auto old = node.has(kMark) ? made.find(node.int_or(kMark, 0)) : made.end();
    if (old == made.end()) continue;
    const auto meant = old_values.find(old->second), found = new_values.find(node.outputs[0]);
    if (meant && (!found || !same_elements(*meant, *found))) {
      fail(text_of(node), "its values are not those of " + quote_text(old->second));
    }
  }
}

void expect_same_codes(const Graph& graph, const Graph& lowered) {
  const ConstantValues constants(lowered);
  for (const auto& [name, constant] : graph.quantized) {
    const auto found = constants.find(name);
    const auto meant = constant.value().to_floats();
    const std::string what = "constant " + quote_text(name);
    if (!found) fail(what, "its value cannot be computed");
    const std::vector<double> values(meant.begin(), meant.end());
    if (auto text = first_difference(values, found->values); !text.empty()) fail(what, "values: " + text);
    if (found->levels.empty()) continue;
    const std::vector<float> levels = graph::levels_of(constant);
    const std::vector<double> wide(levels.begin(), levels.end());
    // A zero point that is no whole number makes levels that are float32 there.
    std::vector<double> narrow;
    for (const double level : found->levels) narrow.push_back(static_cast<float>(level));
    if (auto text = first_difference(wide, narrow); !text.empty()) fail(what, "codes: " + text);
  }
}

}  // namespace crumb::exporting
