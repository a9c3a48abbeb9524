// What lowering knows of Pad nodes: where they may lie, and what they give as codes.
//
// A Pad moves elements and adds a constant. A quantizer treats each element alone, so it may stand before the
// Pad as well as behind it, where the constant is a value of its codes. On codes a convolution adds zeros
// itself, by its attribute `pads`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "runtime/lower/known.h"

namespace crumb::runtime {

/// A Pad node's attributes and constant inputs.
struct KnownPad {
  bool is_constant = true;     ///< its mode; others repeat elements
  std::optional<double> fill;  ///< what it adds where its mode is constant; nothing where that is computed
  /// Of each axis: numbers before the first element of all axes, then numbers behind the last one; empty
  /// where they are computed.
  std::vector<std::int64_t> pads;

  bool adds_zeros() const { return is_constant && fill && *fill == 0; }
};

/// Precondition: the node is a Pad.
KnownPad known_pad(const Known& known, const graph::Node& node);

/// The code that stands for exactly this value, as float32 computes (code - zero) * scale.
std::optional<std::int32_t> exact_code(const UniformQuantizer& quantizer, double value);

/// A convolution over [N, C, D1, ..., Dn] with the attribute `pads` for the input of the Pad in front of it.
/// Nothing where the Pad adds something else than zeros, to N or C, or takes elements away, or where the node
/// finds out its own padding (auto_pad).
std::optional<graph::Node> with_zeros_of(const KnownPad& pad, graph::Node convolution, std::size_t rank);

/// The graph with Pads behind the quantizers that were the only ones to take their outputs, a quantizer being
/// QONNX's, or QuantizeLinear and DequantizeLinear. Only where each element stays the same: modes that repeat
/// elements, and zeros that have a code.
graph::Graph pads_behind_quantizers(graph::Graph graph);

}  // namespace crumb::runtime
