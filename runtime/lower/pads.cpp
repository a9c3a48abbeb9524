#include "runtime/lower/pads.h"

#include <algorithm>
#include <cmath>

namespace crumb::runtime {
namespace {

using graph::ElementType;
using graph::Graph;
using graph::Node;
using graph::Tensor;
using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kMostPad = std::int64_t{1} << 20;  // of an axis, with a convolution's own

/// Integers of an input of a Pad, which must be a constant.
std::optional<Ints> constant_ints(const Known& known, const Node& node, std::size_t i) {
  const Tensor* tensor = node.has_input(i) ? known.constant(node.inputs[i]) : nullptr;
  const bool are_integers =
      tensor && (tensor->type() == ElementType::kInt64 || tensor->type() == ElementType::kInt32);
  return are_integers ? std::optional(tensor->to_ints()) : std::nullopt;
}

/// Numbers of listed axes as numbers of all axes; empty where they do not fit.
Ints of_all_axes(const Ints& pads, const Ints& axes, std::size_t rank) {
  Ints all(2 * rank, 0);
  if (pads.size() != 2 * axes.size()) return {};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(rank) : axes[i];
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return {};
    all[static_cast<std::size_t>(axis)] = pads[i];
    all[rank + static_cast<std::size_t>(axis)] = pads[axes.size() + i];
  }
  return all;
}

Ints known_pads(const Known& known, const Node& node) {
  Ints pads = node.ints_or("pads", node.ints_or("paddings", {}));
  if (pads.empty()) pads = constant_ints(known, node, 1).value_or(Ints());
  if (!node.has_input(3)) return pads.size() % 2 == 0 ? pads : Ints();
  const auto axes = constant_ints(known, node, 3);
  const auto rank = known.graph().rank_of(node.inputs[0]);
  return axes && rank ? of_all_axes(pads, *axes, *rank) : Ints();
}

/// The nodes of a quantizer behind a Pad: one, or QuantizeLinear, perhaps Clip, and DequantizeLinear; empty
/// where there is none that keeps the Pad's elements.
std::vector<std::size_t> quantizer_behind(const Known& known, const Node& node) {
  const KnownPad pad = known_pad(known, node);
  const auto first = known.only_consumer(node.outputs[0]);
  if (!first) return {};
  const Node& quantizer = known.graph().nodes[*first];
  if (quantizer.inputs[0] != node.outputs[0]) return {};
  const auto keeps_zero = [&](const UniformQuantizer& q) {
    const bool adds_positive_zeros = pad.adds_zeros() && !std::signbit(*pad.fill);
    return !pad.is_constant || (adds_positive_zeros && exact_code(q, 0));
  };
  if (const auto found = known.quantizer_of(quantizer))
    return keeps_zero(*found) ? std::vector{*first} : std::vector<std::size_t>();
  if (!quantizer.is("QuantizeLinear") || quantizer.int_or("block_size", 0) != 0 ||
      quantizer.int_or("output_dtype", 0) != 0 || !quantizer.has_input(2))
    return {};
  auto to_codes = known.linear_quantizer(quantizer, ElementType::kUnknown);
  if (!to_codes) return {};
  std::vector<std::size_t> nodes{*first};
  if (const auto clip = known.clip_of_codes(quantizer.outputs[0])) {
    nodes.push_back(clip->node);
    to_codes = narrowed(*to_codes, clip->range);
  }
  const std::string& codes = known.graph().nodes[nodes.back()].outputs[0];
  const auto last = known.only_consumer(codes);
  if (!last) return {};
  nodes.push_back(*last);
  const Node& dequantizer = known.graph().nodes[*last];
  if (!dequantizer.is("DequantizeLinear") || dequantizer.int_or("block_size", 0) != 0 ||
      dequantizer.inputs[0] != codes)
    return {};
  const auto to_values = known.linear_quantizer(dequantizer, type_of(*to_codes));
  if (!to_values || !keeps_zero(*to_codes) || (pad.is_constant && to_values->zero != to_codes->zero))
    return {};
  return nodes;
}

/// Makes a quantizer take what the Pad before it takes, and the Pad what the quantizer makes.
void exchange(Graph& graph, Node& pad, const std::vector<std::size_t>& quantizer) {
  const auto shape = graph.shape_of(pad.inputs[0]);
  graph.nodes[quantizer.front()].inputs[0] = pad.inputs[0];
  std::swap(pad.outputs[0], graph.nodes[quantizer.back()].outputs[0]);
  pad.inputs[0] = graph.nodes[quantizer.back()].outputs[0];
  graph.values[pad.inputs[0]] = {.type = ElementType::kFloat, .shape = {}};
  for (const std::size_t node : quantizer) graph.values[graph.nodes[node].outputs[0]].shape = shape;
}

/// Moves each Pad behind the quantizer that is next to it. False where there is none.
bool move_pads_once(Graph& graph) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> pad_behind(graph.nodes.size(), kNone);  // by the last node of a quantizer
  std::vector<std::vector<std::size_t>> quantizers(graph.nodes.size());
  bool moves = false;
  {
    const Known known(graph);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!graph.nodes[i].is("Pad")) continue;
      quantizers[i] = quantizer_behind(known, graph.nodes[i]);
      if (quantizers[i].empty()) continue;
      pad_behind[quantizers[i].back()] = i;
      moves = true;
    }
  }
  if (!moves) return false;
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!quantizers[i].empty()) {
      exchange(graph, graph.nodes[i], quantizers[i]);
      continue;
    }
    nodes.push_back(std::move(graph.nodes[i]));
    if (pad_behind[i] != kNone) nodes.push_back(std::move(graph.nodes[pad_behind[i]]));
  }
  graph.nodes = std::move(nodes);
  return true;
}

}  // namespace

KnownPad known_pad(const Known& known, const Node& node) {
  KnownPad pad{.is_constant = node.text_or("mode", "constant") == "constant", .fill = {}, .pads = {}};
  pad.fill = node.has_input(2) ? known.number(node, 2) : std::optional<double>(node.float_or("value", 0));
  pad.pads = known_pads(known, node);
  return pad;
}

std::optional<std::int32_t> exact_code(const UniformQuantizer& quantizer, double value) {
  const double code = std::nearbyint(value / quantizer.scale) + quantizer.zero;
  if (!(code >= quantizer.low && code <= quantizer.high)) return std::nullopt;
  if (quantizer.bipolar && code == 0) return std::nullopt;
  const auto level = static_cast<float>(code - quantizer.zero);
  if (level * static_cast<float>(quantizer.scale) != static_cast<float>(value)) return std::nullopt;
  return static_cast<std::int32_t>(code);
}

std::optional<Node> with_zeros_of(const KnownPad& pad, Node convolution, std::size_t rank) {
  const std::string automatic = convolution.text_or("auto_pad", "NOTSET");
  const bool states_padding = automatic.empty() || automatic == "NOTSET" || automatic == "VALID";
  if (!pad.adds_zeros() || pad.pads.size() != 2 * rank || rank < 2 || !states_padding) return std::nullopt;
  Ints own = convolution.ints_or("pads", {});
  if (own.empty() || automatic == "VALID") own.assign(2 * (rank - 2), 0);
  if (own.size() != 2 * (rank - 2)) return std::nullopt;
  for (std::size_t i = 0; i < 2 * rank; ++i) {
    const std::int64_t more = pad.pads[i];
    const std::size_t axis = i % rank;
    if (axis < 2 && more != 0) return std::nullopt;
    if (axis < 2) continue;
    std::int64_t& at = own[i / rank * (rank - 2) + axis - 2];
    if (more < 0 || more > kMostPad || at < 0 || at > kMostPad) return std::nullopt;
    at += more;
  }
  convolution.attributes.erase("auto_pad");
  convolution.attributes["pads"] = own;
  return convolution;
}

Graph pads_behind_quantizers(Graph graph) {
  constexpr int kMostInARow = 8;  // Pads before a quantizer, or quantizers behind a Pad
  for (int i = 0; i < kMostInARow && move_pads_once(graph); ++i) continue;
  return graph;
}

}  // namespace crumb::runtime
