// Rules about pools: of average pools FINN takes two patterns that end in Trunc, hls4ml none that come
// through QONNX; of max pools hls4ml takes those over two axes.
#include <algorithm>
#include <cmath>

#include "export/lint/checks.h"
#include "graph/window.h"

namespace crumb::exporting::checks {
namespace {

using Ints = std::vector<std::int64_t>;

bool is_scalar(const Tensor* constant, float value) {
  return constant && constant->rank() == 0 && uniform(constant) == value;
}

/// What is wrong with the pool of a pattern; empty where nothing is.
std::string fault_of_pool(const Node* pool) {
  if (!pool || !pool->is("AveragePool")) return "no AveragePool stands before it";
  const auto kernel = pool->ints_or("kernel_shape", {}), strides = pool->ints_or("strides", {});
  const auto pads = pool->ints_or("pads", {});
  if (kernel.size() != 2 || kernel[0] != kernel[1])
    return "the pool's kernel is not square in two dimensions";
  if (strides.size() != 2 || strides[0] != strides[1]) return "the pool's strides are not two equal numbers";
  if (pads.empty()) return "the pool's pads are not written";
  if (std::ranges::any_of(pads, [](std::int64_t pad) { return pad != 0; })) return "the pool pads";
  return "";
}

/// What is wrong with a Trunc for FINN; empty where nothing is.
std::string fault_of_trunc(const Subject& subject, const Node& node) {
  if (node.text_or("rounding_mode", "FLOOR") != "FLOOR") return "its rounding_mode is not FLOOR";
  if (node.inputs.size() < 5) return "it has too few inputs";
  if (node.inputs.size() > 5) {
    const auto scale = uniform(subject.constant(node, 1)), in = uniform(subject.constant(node, 3)),
               out_scale = uniform(subject.constant(node, 4)), out = uniform(subject.constant(node, 5));
    if (!scale || !in || !out_scale || !out) return "its parameters are not one constant number each";
    if (std::log2(*out_scale / *scale) != *in - *out) {
      return "log2(out_scale / scale) is not in_bitwidth - out_bitwidth";
    }
    return fault_of_pool(subject.source(node, 0));
  }
  if (!is_scalar(subject.constant(node, 2), 0)) return "its zeropt is not 0 of shape []";
  const Node* mul = subject.source(node, 0);
  if (!mul || !mul->is("Mul")) return "no Mul by the size of the kernel stands before it";
  const Node* pool = subject.source(*mul, 0);
  if (const std::string fault = fault_of_pool(pool); !fault.empty()) return fault;
  const auto side = static_cast<float>(pool->ints_or("kernel_shape", {0})[0]);
  if (!is_scalar(subject.constant(*mul, 1), side * side)) {
    return "the Mul before it is not by " + number_text(side * side) + " of shape []";
  }
  return "";
}

/// What hls4ml reads wrongly of a MaxPool with channels last; empty where nothing.
std::string fault_of_max_pool(const Graph& graph, const Node& node) {
  if (!node.is("MaxPool", kChannelsLastDomain)) return "";
  if (graph.rank_of(input_of(node, 0)) == std::size_t{3})
    return "it pools over one axis, which hls4ml 1.3.0 takes for the channels; expected two axes";
  return node.int_or("ceil_mode", 0) != 0 ? "it rounds sizes up (ceil_mode), expected down" : "";
}

bool is_known(const Graph& graph, const std::string& value) {
  const Value* known = graph.find(value);
  return known && known->is_static();
}

Ints sizes_of(const Graph& graph, const std::string& value) {
  Ints sizes;
  for (const graph::Dim& dim : graph.find(value)->shape.value()) sizes.push_back(dim.size);
  return sizes;
}

/// Whether rounding up makes no window more, or none that reaches beyond the input. hls4ml 1.3.0 computes
/// other numbers of pools whose padding is at the end alone.
bool rounds_nothing(const Graph& graph, const Node& node) {
  const Ints sizes = sizes_of(graph, node.inputs[0]);
  const Ints spatial(sizes.begin() + 1, sizes.end() - 1);
  const graph::Window window = graph::window_of(node, spatial, node.ints_or("kernel_shape", {}), true);
  for (std::size_t i = 0; i < window.axes(); ++i)
    if (window.reached_end(i) > 0) return false;
  return true;
}

bool can_be_mended(const Graph& graph, const Node& node) {
  if (!is_known(graph, input_of(node, 0)) || !is_known(graph, output_of(node))) return false;
  return node.int_or("ceil_mode", 0) == 0 || rounds_nothing(graph, node);
}

/// [N, L, C] as [N, 1, L, C], or back: a Reshape of `from` to `to`, both names of values that are there.
void add_reshape(Graph& graph, const Node& pool, const std::string& from, const std::string& to,
                 const Ints& shape) {
  const std::string name = graph.unused_node_name(pool.name + "_reshape");
  const std::string target = graph::add_constant(
      graph, name + "_shape", Tensor::ints({static_cast<std::int64_t>(shape.size())}, shape));
  graph.nodes.push_back({.name = name,
                         .op = "Reshape",
                         .domain = "",
                         .version = graph.opset(),
                         .inputs = {from, target},
                         .outputs = {to},
                         .attributes = {}});
}

/// A pool over one axis as one over two, of which the first has size 1.
void widen(Graph& graph, std::size_t at) {
  const Node narrow = graph.nodes[at];
  Node made = narrow;
  for (const auto& [name, first] :
       {std::pair("kernel_shape", 1), {"strides", 1}, {"dilations", 1}, {"pads", 0}}) {
    Ints values = narrow.ints_or(name, {});
    if (values.empty()) continue;
    values.insert(values.begin(), first);
    if (values.size() == 3)
      values.insert(values.begin() + 2, first);  // pads: where each axis begins, then where it ends
    made.attributes[name] = values;
  }
  const auto wide = [&](const std::string& value) {
    Ints sizes = sizes_of(graph, value);
    sizes.insert(sizes.begin() + 1, 1);
    return sizes;
  };
  const auto wide_value = [&](const std::string& value) {
    const Ints sizes = wide(value);
    return graph::add_value(
        graph, value + "_wide",
        {.type = graph.find(value)->type, .shape = Shape(sizes.begin(), sizes.end()), .annotations = {}});
  };
  made.inputs[0] = wide_value(narrow.inputs[0]);
  made.outputs[0] = wide_value(narrow.outputs[0]);
  add_reshape(graph, narrow, narrow.inputs[0], made.inputs[0], wide(narrow.inputs[0]));
  add_reshape(graph, narrow, made.outputs[0], narrow.outputs[0], sizes_of(graph, narrow.outputs[0]));
  graph.nodes[at] = std::move(made);
}

}  // namespace

void max_pools(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const std::string fault = fault_of_max_pool(subject.graph(), node);
    if (!fault.empty()) report.add(node, fault, can_be_mended(subject.graph(), node));
  }
}

Graph give_pools_two_axes(Graph graph, Profile) {
  return for_each_node(std::move(graph), [](Graph& all, std::size_t i) {
    if (fault_of_max_pool(all, all.nodes[i]).empty() || !can_be_mended(all, all.nodes[i])) return;
    all.nodes[i].attributes["ceil_mode"] = std::int64_t{0};
    if (all.rank_of(all.nodes[i].inputs[0]) == std::size_t{3}) widen(all, i);
  });
}

void average_pools(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (subject.is_for(Profile::kHls4ml)) {
      if (node.is("AveragePool") || node.is("GlobalAveragePool")) {
        report.add(node, "found " + node.op +
                             ", which has no channels-last form in QONNX; expected a convolution "
                             "or a MaxPool");
      }
      continue;
    }
    if (!node.is("AveragePool")) continue;
    const auto is_trunc = [](const Node* next) { return next->is("Trunc", kQonnxDomain); };
    const auto leads_to_trunc = [&](const Node* next) {
      return is_trunc(next) || (next->is("Mul") && std::ranges::any_of(subject.consumers(*next), is_trunc));
    };
    if (!std::ranges::any_of(subject.consumers(node), leads_to_trunc)) {
      report.add(node, "no Trunc follows, expected AveragePool, Mul by the size of the kernel, Trunc");
    }
  }
}

void truncs(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!node.is("Trunc", kQonnxDomain)) continue;
    if (const std::string fault = fault_of_trunc(subject, node); !fault.empty()) {
      report.add(node, fault + "; expected AveragePool, Mul by the size of the kernel, Trunc");
    }
  }
}

}  // namespace crumb::exporting::checks
