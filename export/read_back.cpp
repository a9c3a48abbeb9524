#include "export/read_back.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/files/text.h"
#include "base/text/ascii_case.h"
#include "export/lint/subject.h"
#include "graph/edit.h"
#include "graph/facts/constant_parts.h"
#include "graph/quantized_constant.h"
#include "graph/strided_index.h"
#include "quant/code_grid.h"

namespace crumb::exporting {
namespace {

using graph::ConstantValue;
using graph::ConstantValues;
using graph::Links;

constexpr const char* kMark = "crumb_mark";
constexpr std::size_t kMostAxes = 6;  // whose orders are tried

std::vector<double> without_repeats(std::vector<double> values) {
  if (!values.empty() && std::ranges::all_of(values, [&](double value) { return value == values[0]; })) {
    values.resize(1);
  }
  return values;
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

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

/// What of the constants that two quantizers make differs; empty where nothing does.
std::string difference(const ConstantValue& meant, const ConstantValue& found) {
  if (meant.shape != found.shape) return "the constant has another shape";
  if (auto text = first_difference(meant.levels, found.levels); !text.empty())
    return "integers (less the zero point): " + text;
  if (auto text = first_difference(meant.values, found.values); !text.empty()) return "values: " + text;
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
    if (auto text = difference(*meant.constant, *found.constant); !text.empty()) return text;
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

/// All but the constant.
QuantizerMeaning meaning_without_constant(const ConstantValues& constants, const Node& node) {
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
  return meaning;
}

QuantizerMeaning meaning_of(const ConstantValues& constants, const Node& node) {
  QuantizerMeaning meaning = meaning_without_constant(constants, node);
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

/// Values of a constant, in float32, which quantizers make.
struct Elements {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// Whether the elements are the same, perhaps with the axes in another order, or with the rows of a matrix in
/// another: what goes into a dense layer may be laid out with its channels last.
bool same_elements(const Elements& a, const Elements& b) {
  if (a.values.size() != b.values.size()) return false;
  const auto same_floats = [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::ranges::equal(x, y, [](float one, float other) { return same_number(one, other); });
  };
  if (a.shape == b.shape && same_floats(a.values, b.values)) return true;
  if (a.shape.size() != b.shape.size() || a.shape.size() > kMostAxes) return same_floats(a.values, b.values);
  const std::vector<float>& values = a.values;
  std::vector<std::int64_t> axes(a.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  do {
    if (graph::permuted_shape(a.shape, axes) != b.shape) continue;
    const std::vector<float> moved = graph::permuted(values, a.shape, axes);
    if (same_floats(moved, b.values)) return true;
    if (axes.size() == 2 && sorted_rows(moved, b.shape[1]) == sorted_rows(b.values, b.shape[1])) return true;
  } while (std::ranges::next_permutation(axes).found);
  return false;
}

/// Whether two quantizers are the same node over the same constants, which is said without looking at large
/// ones.
bool is_same_definition(const Graph& before, const Node& a, const Graph& after, const Node& b) {
  if (a.op != b.op || a.attributes != b.attributes || a.inputs.size() != b.inputs.size()) return false;
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    const Tensor *x = graph::constant_input(before, a, i), *y = graph::constant_input(after, b, i);
    if (!x || !y || x->shape() != y->shape() || !(x->shares_with(*y) || (x->size() == 1 && *x == *y)))
      return false;
  }
  return true;
}

/// Nothing where they cannot be computed.
std::optional<Elements> elements_of(const Graph& graph, const ConstantValues& constants, const Links& links,
                                    const Node& node) {
  auto values = graph::floats_of(graph, constants, links, node.outputs[0]);
  if (!values) return {};
  const Tensor* data = graph::constant_input(graph, node, 0);
  if (data) return Elements{data->shape(), std::move(*values)};
  const auto whole = constants.find(node.outputs[0]);
  return Elements{whole->shape, std::move(*values)};
}

std::string difference(const std::optional<ConstantValue>& meant, const std::optional<ConstantValue>& found) {
  if (meant.has_value() != found.has_value())
    return meant ? "it quantizes no constant" : "it quantizes a constant";
  return meant ? difference(*meant, *found) : "";
}

/// A graph, and what its constants are asked by.
struct Asked {
  const Graph& graph;
  ConstantValues constants{graph};
  Links links{graph};
  std::vector<const Node*> quantizers = {};

  explicit Asked(const Graph& of) : graph(of) {
    for (const Node& node : graph.nodes) {
      if (is_qonnx_quantizer(node) || is_thresholds(node)) quantizers.push_back(&node);
    }
  }
  bool is_of_constant(const Node& node) const {
    return node.has_input(0) && constants.is_constant(node.inputs[0]);
  }
};

/// Part by part where both are cut alike.
std::string difference_of_constants(const Asked& meant, const Node& a, const Asked& found, const Node& b) {
  const graph::ConstantParts mine(meant.graph, meant.constants, meant.links, a.outputs[0]),
      theirs(found.graph, found.constants, found.links, b.outputs[0]);
  if (mine.count() != theirs.count())
    return difference(meant.constants.find(a.outputs[0]), found.constants.find(b.outputs[0]));
  for (std::size_t i = 0; i < mine.count(); ++i) {
    if (auto text = difference(mine.part(i), theirs.part(i)); !text.empty())
      return text + (mine.count() > 1 ? ", of part " + std::to_string(i) : "");
  }
  return "";
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

void expect_same_quantizers(const Graph& meant, const Graph& found) {
  const Asked mine(meant), theirs(found);
  if (mine.quantizers.size() != theirs.quantizers.size()) {
    throw Error("the file has " + std::to_string(theirs.quantizers.size()) + " quantizers, expected " +
                std::to_string(mine.quantizers.size()));
  }
  for (std::size_t i = 0; i < mine.quantizers.size(); ++i) {
    const Node &a = *mine.quantizers[i], &b = *theirs.quantizers[i];
    std::string text = difference(meaning_without_constant(mine.constants, a),
                                  meaning_without_constant(theirs.constants, b));
    if (text.empty() && mine.is_of_constant(a) != theirs.is_of_constant(b))
      text = mine.is_of_constant(a) ? "it quantizes no constant" : "it quantizes a constant";
    if (text.empty() && mine.is_of_constant(a)) text = difference_of_constants(mine, a, theirs, b);
    if (!text.empty()) fail(text_of(b), text);
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
  const Asked old_values(before), new_values(after);
  std::map<std::int64_t, const Node*> made;  // mark -> quantizer
  for (const Node& node : before.nodes) {
    if (node.has(kMark) && old_values.constants.is_constant(node.outputs[0]))
      made[node.int_or(kMark, 0)] = &node;
  }
  for (const Node& node : after.nodes) {
    if (!is_qonnx_quantizer(node)) continue;
    const auto old = node.has(kMark) ? made.find(node.int_or(kMark, 0)) : made.end();
    if (old == made.end() || is_same_definition(before, *old->second, after, node)) continue;
    const auto meant = elements_of(before, old_values.constants, old_values.links, *old->second);
    if (!meant) continue;
    const auto found = elements_of(after, new_values.constants, new_values.links, node);
    if (!found || !same_elements(*meant, *found))
      fail(text_of(node), "its values are not those of " + quote_text(old->second->outputs[0]));
  }
}

namespace {

/// The values of a constant against those of what a lowered graph makes of it, part by part.
void expect_same_values(const Asked& lowered, const std::string& name, const std::string& made,
                        const graph::QuantizedConstant& constant, bool of_levels) {
  const std::uint64_t size = constant.tensor->layout.matrix.size();
  const std::string what = "constant " + quote_text(name);
  const graph::ConstantParts parts(lowered.graph, lowered.constants, lowered.links, made);
  std::uint64_t at = 0;
  std::vector<float> meant;
  for (std::size_t i = 0; i < parts.count(); ++i) {
    const auto found = parts.part(i);
    if (!found) fail(what, "its value cannot be computed");
    // A zero point that is no whole number makes levels that are float32 there.
    std::vector<double> narrow = of_levels ? found->levels : found->values;
    if (narrow.empty()) return;
    for (double& number : narrow) number = static_cast<float>(number);
    if (narrow.size() > size - at) fail(what, "more elements than " + std::to_string(size));
    meant.resize(narrow.size());
    (of_levels ? graph::read_levels : graph::read_values)(constant, at, meant);
    if (auto text = first_difference({meant.begin(), meant.end()}, narrow); !text.empty())
      fail(what, (of_levels ? "codes: " : "values: ") + text);
    at += narrow.size();
  }
  if (at != size) fail(what, std::to_string(at) + " elements, expected " + std::to_string(size));
}

/// The quantizer whose elements, in their order, are those of the value: through Reshapes.
std::string before_reshapes(const Graph& graph, const Links& links, std::string value) {
  for (std::size_t at = links.producer(value); at != Links::kNone && graph.nodes[at].is("Reshape");
       at = links.producer(value))
    value = graph.nodes[at].inputs[0];
  return value;
}

}  // namespace

void expect_same_codes(const Graph& graph, const Graph& lowered) {
  const Asked asked(lowered);
  for (const auto& [name, constant] : graph.quantized) {
    const std::string made = before_reshapes(lowered, asked.links, name);
    expect_same_values(asked, name, made, constant, false);
    expect_same_values(asked, name, made, constant, true);
  }
}

}  // namespace crumb::exporting
