#include "runtime/attention/cache_codes.h"

#include <cmath>
#include <string>

#include "graph/attention_caches.h"

namespace crumb::runtime {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;

/// Returns a constant that is one number.
std::optional<float> number_of(const Graph& graph, const Node& node, std::size_t input) {
  const graph::Tensor* constant = node.has_input(input) ? graph.constant(node.inputs[input]) : nullptr;
  if (!constant || constant->size() != 1) return std::nullopt;
  return constant->to_floats()[0];
}

/// Returns the last size that a Reshape with constant sizes makes; 0 where it is open.
std::size_t last_size(const Graph& graph, const Node& reshape) {
  const graph::Tensor* sizes = reshape.has_input(1) ? graph.constant(reshape.inputs[1]) : nullptr;
  if (!sizes || sizes->size() == 0) return 0;
  const std::int64_t last = sizes->to_ints().back();
  return last > 0 ? static_cast<std::size_t>(last) : 0;
}

const NumberFormat* integers_of(const Graph& graph, const Node& node) {
  const auto zero = number_of(graph, node, 2), bits = number_of(graph, node, 3);
  if (!zero || *zero != 0 || !bits || *bits != std::floor(*bits)) return nullptr;
  const bool is_signed = node.int_or("signed", 1) != 0;
  return find_number_format((is_signed ? "int" : "uint") + std::to_string(static_cast<int>(*bits)));
}

const NumberFormat* minifloat_of(const Graph& graph, const Node& node) {
  const auto exponent = number_of(graph, node, 2), mantissa = number_of(graph, node, 3);
  const auto bias = number_of(graph, node, 4), most = number_of(graph, node, 5);
  if (!exponent || !mantissa || !bias || !most) return nullptr;
  for (const NumberFormat& format : number_formats()) {
    const bool fits =
        format.grid == Grid::kMinifloat && static_cast<float>(format.exponent_bits) == *exponent &&
        static_cast<float>(format.mantissa_bits) == *mantissa && static_cast<float>(format.bias) == *bias &&
        format.largest_value(format.default_range()) == *most;
    if (fits) return &format;
  }
  return nullptr;
}

std::optional<RowCodes> codes_of(const Graph& graph, const Links& links, const std::string& value) {
  std::size_t at = links.producer(value);
  while (at != Links::kNone && graph.nodes[at].is("Reshape")) at = links.producer(graph.nodes[at].inputs[0]);
  if (at == Links::kNone || !graph::is_quantizer(graph.nodes[at])) return std::nullopt;
  const Node& quantizer = graph.nodes[at];
  RowCodes codes;
  if (quantizer.op == "Quant" || quantizer.op == "IntQuant") codes.number = integers_of(graph, quantizer);
  if (quantizer.op == "FloatQuant") codes.number = minifloat_of(graph, quantizer);
  if (!codes.number) return std::nullopt;
  codes.range = codes.number->default_range();
  if (codes.number->has_range())
    codes.range = quantizer.int_or("narrow", 0) != 0 ? Range::kNarrow : Range::kFull;
  const std::size_t before = links.producer(quantizer.inputs[0]);
  if (before != Links::kNone && graph.nodes[before].is("Reshape"))
    codes.group = last_size(graph, graph.nodes[before]);
  return codes;
}

}  // namespace

CacheCodes cache_codes(const Graph& graph, const Links& links, const Node& attention) {
  using In = graph::AttentionInput;
  CacheCodes made;
  if (attention.has_input(In::kKey)) made.keys = codes_of(graph, links, attention.inputs[In::kKey]);
  if (attention.has_input(In::kValue)) made.values = codes_of(graph, links, attention.inputs[In::kValue]);
  return made;
}

}  // namespace crumb::runtime
