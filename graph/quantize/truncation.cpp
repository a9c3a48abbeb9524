#include "graph/quantize/truncation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/files/text.h"
#include "graph/edit.h"
#include "graph/quantize/edges.h"
#include "graph/quantize/operators.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

/// Returns how many values a window has, or why that is not one number.
Result<std::int64_t> window_size(const Graph& graph, const Node& node) {
  if (node.is("AveragePool")) {
    const Ints pads = node.ints_or("pads", {});
    const std::string auto_pad = node.text_or("auto_pad", "NOTSET");
    const bool is_padded = std::ranges::any_of(pads, [](std::int64_t pad) { return pad != 0; }) ||
                           (auto_pad != "NOTSET" && auto_pad != "VALID") || node.int_or("ceil_mode", 0) != 0;
    if (is_padded) return Failure{"it pads"};
    const auto size = count_elements(node.ints_or("kernel_shape", {}));
    return size.ok() && size.value() > 0 ? size : Result<std::int64_t>(Failure{"it has no kernel_shape"});
  }
  const auto shape = graph.shape_of(node.inputs[0]);
  if (!shape) return Failure{"the shape of its input is not known"};
  Ints axes;
  if (node.is("ReduceMean")) {
    axes = *mean_axes(graph, node);
  } else {
    for (std::size_t i = 2; i < shape->size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  Ints sizes;
  for (const std::int64_t axis : axes) {
    if (!(*shape)[static_cast<std::size_t>(axis)].known())
      return Failure{"the size of its window is not known"};
    sizes.push_back((*shape)[static_cast<std::size_t>(axis)].size);
  }
  const auto size = count_elements(sizes);
  return size.ok() && size.value() > 0 ? size : Result<std::int64_t>(Failure{"its window has no values"});
}

/// Whether codes are integers of one constant scale in which the code 0 is the number 0.
bool has_plain_integers(const QuantSpec& spec) {
  return spec.number->grid == Grid::kInteger && spec.zero == ZeroPoint::kNone && !spec.is_dynamic();
}

class TruncationPlanner {
 public:
  TruncationPlanner(const Graph& graph, const Links& links, const Constants& constants,
                    std::vector<PlannedEdge>& edges)
      : graph_(graph), links_(links), constants_(constants), edges_(edges) {}

  /// Returns the number format of the truncated result: of the input's sign, with the code 0 for 0.
  const NumberFormat* number_of(const PlannedEdge& edge, const Truncation& how) const {
    const bool is_signed = edges_[how.input].spec.number->is_signed;
    return find_number_format((is_signed ? "int" : "uint") + std::to_string(edge.spec.number->bits));
  }

  Result<Truncation> plan(const PlannedEdge& edge, const Node& pool) const {
    const bool shares = std::ranges::count(edges_, edge.scale_group, &PlannedEdge::scale_group) > 1;
    if (shares) return Failure{"its result shares a scale with other values"};
    if (!has_plain_integers(edge.spec)) return Failure{"its result is to be " + edge.spec.to_string()};
    const Result<std::int64_t> size = window_size(graph_, pool);
    if (!size.ok()) return size.failure();
    const Sources sources = sources_of(graph_, links_, constants_, pool.inputs[0]);
    if (sources.values.empty()) return Failure{"what it takes has no quantizer of the plan"};
    Truncation made{.size = size.value()};
    std::optional<std::size_t> first;
    for (const std::string& value : sources.values) {
      const auto found = std::ranges::find(edges_, value, &PlannedEdge::value);
      if (found == edges_.end()) return Failure{"what it takes has no quantizer"};
      const auto at = static_cast<std::size_t>(found - edges_.begin());
      if (!first) made.input = *(first = at);
      if (edges_[*first].scale_group != found->scale_group)
        return Failure{"what it takes has several scales"};
      if (!has_plain_integers(found->spec) || !found->consumers.empty())
        return Failure{"what it takes is " + found->spec.to_string()};
      if (found->spec.number->is_signed != edges_[*first].spec.number->is_signed)
        return Failure{"what it takes has signs in part"};
      made.bits = std::max(made.bits, found->spec.number->bits);
    }
    made.bits += static_cast<int>(std::bit_width(static_cast<std::uint64_t>(made.size - 1)));
    made.kept = std::min(made.bits, edge.spec.number->bits);
    constexpr int kMostBits = 24;  // of sums in float32
    if (made.bits > kMostBits) {
      return Failure{"its sums take " + std::to_string(made.bits) + " bits, more than float32 holds"};
    }
    return made;
  }

 private:
  const Graph& graph_;
  const Links& links_;
  const Constants& constants_;
  const std::vector<PlannedEdge>& edges_;
};

/// Writes all attributes of the pool's window, which FINN requires; a global pool gets a kernel.
void write_window(Graph& graph, const std::string& made) {
  const auto pool = std::ranges::find_if(
      graph.nodes, [&](const Node& node) { return node.has_output(0) && node.outputs[0] == made; });
  if (pool == graph.nodes.end()) return;
  if (pool->is("GlobalAveragePool")) {
    Ints kernel;
    const Shape shape = graph.shape_of(pool->inputs[0]).value_or(Shape{});
    for (std::size_t i = 2; i < shape.size(); ++i) kernel.push_back(shape[i].size);
    pool->op = "AveragePool";
    pool->attributes = {{"kernel_shape", kernel}, {"strides", kernel}};
  }
  if (!pool->is("AveragePool")) return;
  const std::size_t axes = pool->ints_or("kernel_shape", {}).size();
  pool->attributes.emplace("strides", Ints(axes, 1));
  pool->attributes.emplace("pads", Ints(2 * axes, 0));
  pool->attributes.erase("auto_pad");  // NOTSET, or VALID, which has no padding either
}

}  // namespace

double Truncation::factor() const { return std::ldexp(1.0, shift()) / static_cast<double>(size); }

void plan_truncations(const Graph& graph, const Links& links, const Constants& constants,
                      std::vector<PlannedEdge>& edges, std::vector<std::string>& notes) {
  const TruncationPlanner planner(graph, links, constants, edges);
  for (PlannedEdge& edge : edges) {
    const std::size_t producer = links.producer(edge.value);
    if (producer == Links::kNone || !is_average_pool(graph, graph.nodes[producer])) continue;
    Result<Truncation> truncation = planner.plan(edge, graph.nodes[producer]);
    if (truncation.ok()) {
      edge.truncation = truncation.take();
      edge.spec.number = planner.number_of(edge, *edge.truncation);
      edge.spec.range = Range::kFull;  // rounding down gives no symmetric range
      edge.is_signed_twin = false;
    } else {
      notes.push_back(text_of(graph.nodes[producer]) + " is not truncated: " + truncation.failure().message);
    }
  }
}

void derive_scales(QuantPlan& plan) {
  for (PlannedEdge& edge : plan.edges) {
    if (edge.truncation) {
      edge.scale = plan.edges[edge.truncation->input].scale * static_cast<float>(edge.truncation->factor());
    }
  }
}

std::vector<Node> truncating_nodes(Graph& graph, const PlannedEdge& edge, float input_scale) {
  const Truncation& how = *edge.truncation;
  write_window(graph, edge.value);
  const std::int64_t opset = graph.opset();
  const std::int64_t version = graph.opsets.emplace(kQonnxDomain, 1).first->second;
  const Value* known = graph.find(edge.value);
  const Value like{
      .type = ElementType::kFloat, .shape = known ? known->shape : std::nullopt, .annotations = {}};
  const auto constant = [&](const char* what, double number) {
    return add_constant(graph, edge.value + what, Tensor::scalar(static_cast<float>(number)));
  };
  Node sum{.op = "Mul", .version = opset};
  sum.inputs = {"", constant("_window", static_cast<double>(how.size))};
  sum.outputs = {add_value(graph, edge.value + "_sum", like)};
  Node cut{.op = "Trunc", .domain = std::string(kQonnxDomain), .version = version};
  cut.attributes["rounding_mode"] = std::string("FLOOR");
  cut.inputs = {sum.outputs[0], constant("_sum_scale", input_scale), constant("_zeropt", 0),
                constant("_sum_bits", how.bits), constant("_bits", how.kept)};
  double factor = how.factor();
  if (version >= 2) {
    // Values keep their magnitude, and no code exceeds the bits and would be clamped.
    const double step = std::ldexp(1.0, how.shift());
    cut.inputs.insert(cut.inputs.end() - 1, constant("_cut_scale", static_cast<double>(input_scale) * step));
    cut.attributes["signed"] = std::int64_t{edge.spec.number->is_signed};
    cut.attributes["narrow"] = std::int64_t{0};
    factor /= step;
  }
  if (factor == 1) return {std::move(sum), std::move(cut)};
  cut.outputs = {add_value(graph, edge.value + "_cut", like)};
  Node mean{.op = "Mul", .version = opset};
  mean.inputs = {cut.outputs[0], constant("_mean", factor)};
  return {std::move(sum), std::move(cut), std::move(mean)};
}

}  // namespace crumb::graph
