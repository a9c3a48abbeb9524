// The fixed-point types with which hls4ml computes a network exactly: what its nodes' values can be, and the
// registers in which products add up.
//
// The names are those of hls4ml's configuration: "result" (what a layer gives), "accum" (the register of its
// sum), "scale" and "bias" (of what multiplies or adds constants, where that stays a layer of its own).
//
//   - The register of a layer starts with its bias: the third input of a Conv whose weight has one scale, or
//     an Add of a constant behind a Conv or MatMul that nobody else takes.
//   - Where the scales of a Conv's weight differ, hls4ml adds up codes times inputs, and multiplies and adds
//     behind.
//   - What only a quantizer takes has no type of its own: hls4ml lets the layer round to the quantizer's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/accumulator/layers.h"
#include "export/hls4ml/fixed_range.h"
#include "export/project/samples.h"
#include "graph/graph.h"

namespace crumb::exporting::hls4ml {

struct LayerTypes {
  std::string node;
  std::optional<FixedRange> result;  ///< nothing: hls4ml takes it from the quantizer behind, or infers it
  std::optional<FixedRange> accum, scale, bias;
};

struct NetworkTypes {
  std::map<std::string, std::string> inputs;  ///< hls4ml's type of each input of the graph, rounding included
  std::map<std::string, InputSpan> input_spans;
  std::vector<LayerTypes> layers;  ///< of nodes, in order; those with nothing to say are left out
  /// Nodes and inputs whose numbers are no fixed-point numbers that float32 holds too, and why: hls4ml would
  /// compute something else. Only the first on each way is named.
  std::vector<std::string> inexact;
};

/// Of a graph as it is written for hls4ml: sorted, shapes static, quantizers in QONNX's words, channels last.
/// `given`: whole numbers of inputs that nothing quantizes first.
NetworkTypes types_of(const graph::Graph& graph, const analysis::GivenRanges& given = {});

/// Throws Error that names what is inexact, where something is.
void refuse_inexact(const NetworkTypes& types);

}  // namespace crumb::exporting::hls4ml
