// What FINN's converter makes of a quantizer of an activation, and thresholds in the file where that is
// something else.
#include <algorithm>
#include <cmath>

#include "base/files/text.h"
#include "export/lint/checks.h"
#include "export/lint/lattice.h"
#include "export/lint/thresholds.h"

namespace crumb::exporting::checks {
namespace {

/// The value next to zero for which the two give different codes; nothing where there is none.
std::optional<float> told_apart(const Thresholds& ours, std::optional<int> exponent) {
  const Thresholds theirs = finn_thresholds(ours);
  std::optional<float> nearest;
  for (std::size_t i = 0; i < ours.values.size(); ++i) {
    const float a = ours.values[i], b = theirs.values[i];
    if (a == b) continue;
    float value = std::min(a, b);
    if (exponent) {
      const double step = std::ldexp(1.0, *exponent);
      value = static_cast<float>(std::ceil(value / step) * step);
      if (value >= std::max(a, b)) continue;
    }
    if (!nearest || std::fabs(value) < std::fabs(*nearest)) nearest = value;
  }
  return nearest;
}

double code_of(const Thresholds& thresholds, std::size_t row, float value) {
  const auto first = thresholds.values.begin() + static_cast<std::ptrdiff_t>(row * thresholds.count());
  const auto last = first + static_cast<std::ptrdiff_t>(thresholds.count());
  return thresholds.low + static_cast<double>(std::upper_bound(first, last, value) - first);
}

/// Zero points, signs and rounding modes that FINN refuses, or of which it takes no notice: those of rules of
/// their own.
bool is_for_other_rules(const Subject& subject, const Node& node) {
  const Node* source = subject.source(node, kData);
  const bool is_signed = node.int_or("signed", 1) != 0, is_behind_relu = source && source->is("Relu");
  return uniform(subject.constant(node, kZeropt)) != 0.0F || !finn_takes_rounding(node) ||
         (is_signed ? is_behind_relu : (!is_behind_relu || node.int_or("narrow", 0) != 0));
}

class Activations {
 public:
  explicit Activations(const Subject& subject) : subject_(subject) {}

  /// Thresholds for the file; nothing where FINN's own do, or where there are none.
  std::optional<Thresholds> wanted(const Node& node) {
    const auto exact = exact_thresholds(subject_, node);
    if (!exact) return {};
    const auto exponent = exponent_of(input_of(node, kData));
    if (!is_for_other_rules(subject_, node) && !told_apart(*exact, exponent)) return {};
    return exponent ? between_steps(*exact, *exponent) : *exact;
  }

  std::optional<int> exponent_of(const std::string& value) {
    if (!lattice_) lattice_ = lattice_of(subject_.graph());
    const auto found = lattice_->find(value);
    return found == lattice_->end() ? std::nullopt : std::optional<int>(found->second);
  }

 private:
  const Subject& subject_;
  std::optional<std::map<std::string, int>> lattice_;
};

/// Where the channels of a value are: on the last axis behind a MatMul, else on axis 1.
std::string layout_of(const Graph& graph, const Links& links, std::string value) {
  static constexpr const char* kFirst[] = {"", "", "NC", "NCW", "NCHW"};
  static constexpr const char* kLast[] = {"", "", "NC", "NWC", "NHWC"};
  const std::size_t rank = graph.rank_of(value).value_or(0);
  if (rank >= std::size(kFirst)) return "";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {  // as many steps as there can be
    const std::size_t made = links.producer(value);
    if (made == Links::kNone || graph.nodes[made].is("MatMul"))
      return made == Links::kNone ? kFirst[rank] : kLast[rank];
    const Node& node = graph.nodes[made];
    const bool keeps = node.is("Add") || node.is("Mul") || node.is("Sub") || node.is("Div") ||
                       node.is("Relu") || graph::is_quantizer(node) || is_thresholds(node);
    if (!keeps || !node.has_input(0)) return kFirst[rank];
    value = node.inputs[0];
  }
  return kFirst[rank];
}

std::string type_of(const Thresholds& thresholds) {
  int bits = 1;
  const bool is_signed = thresholds.low < 0;
  while (is_signed
             ? thresholds.low < -std::ldexp(1.0, bits - 1) || thresholds.high >= std::ldexp(1.0, bits - 1)
             : thresholds.high >= std::ldexp(1.0, bits))
    ++bits;
  return (is_signed ? "INT" : "UINT") + std::to_string(bits);
}

/// The quantizer becomes a MultiThreshold and a Mul by its scale. A Relu before it goes where codes begin
/// with 0: zero has that one, so that no threshold lies at or below it.
void write(Graph& graph, const Links& links, std::size_t i, const Thresholds& thresholds) {
  const Node quantizer = graph.nodes[i];
  const std::string output = quantizer.outputs[0];
  Node counts{.name = quantizer.name,
              .op = "MultiThreshold",
              .domain = std::string(kQonnxDomain),
              .version = 1,
              .outputs = {output}};
  counts.attributes["out_dtype"] = type_of(thresholds);
  counts.attributes["out_scale"] = 1.0F;
  counts.attributes["out_bias"] = thresholds.low;
  const std::string layout = layout_of(graph, links, input_of(quantizer, kData));
  if (!layout.empty()) counts.attributes["data_layout"] = layout;
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(thresholds.rows),
                                        static_cast<std::int64_t>(thresholds.count())};
  std::string data = quantizer.inputs[kData];
  const std::size_t before = links.producer(data);
  if (thresholds.low == 0 && before != Links::kNone && graph.nodes[before].is("Relu"))
    data = graph.nodes[before].inputs[0];
  counts.inputs = {data, graph::add_constant(graph, quantizer.name + "_thresholds",
                                             Tensor::floats(shape, thresholds.values))};
  const bool is_unit = std::ranges::all_of(thresholds.scales, [](float scale) { return scale == 1; });
  if (is_unit) {
    graph.nodes[i] = std::move(counts);
    return;
  }
  Value known = graph.values[output];
  known.annotations.clear();
  counts.outputs[0] = graph::add_value(graph, output + "_code", known);
  Node scaled{.name = graph.unused_node_name(quantizer.name + "_scale"),
              .op = "Mul",
              .version = graph.opset(),
              .inputs = {counts.outputs[0], quantizer.inputs[kScale]},
              .outputs = {output}};
  graph.nodes[i] = std::move(counts);
  graph.nodes.push_back(std::move(scaled));
}

}  // namespace

bool can_be_thresholds(const Subject& subject, const Node& node) { return has_thresholds(subject, node); }

void rounded_ties(const Subject& subject, Report& report) {
  Activations activations(subject);
  for (const Node& node : subject.nodes()) {
    const auto exact = exact_thresholds(subject, node);
    if (!exact || is_for_other_rules(subject, node)) continue;
    const auto value = told_apart(*exact, activations.exponent_of(input_of(node, kData)));
    if (!value) continue;
    const Thresholds theirs = finn_thresholds(*exact);
    std::size_t row = 0;
    while (code_of(*exact, row, *value) == code_of(theirs, row, *value)) ++row;
    report.add(node, "of " + number_text(*value) + " it makes code " +
                         number_text(code_of(*exact, row, *value)) + ", FINN's thresholds make " +
                         number_text(code_of(theirs, row, *value)));
  }
}

Graph write_thresholds(Graph graph, Profile profile) {
  std::vector<std::pair<std::size_t, Thresholds>> found;
  {
    const Subject subject(graph, profile);
    Activations activations(subject);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (auto thresholds = activations.wanted(graph.nodes[i])) found.emplace_back(i, std::move(*thresholds));
    }
  }
  const Links links(graph);
  for (const auto& [i, thresholds] : found) write(graph, links, i, thresholds);
  graph = graph::sorted(std::move(graph));  // drop_unused goes backwards
  graph::drop_unused(graph);
  return graph;
}

}  // namespace crumb::exporting::checks
