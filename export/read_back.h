// What the quantizers of a graph mean, to compare two graphs by: the network that was meant, and the one that
// a file holds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/facts/constant_values.h"
#include "graph/graph.h"

namespace crumb::exporting {

/// A quantizer: QONNX's Quant, IntQuant, BipolarQuant, FloatQuant, Trunc or MultiThreshold.
struct QuantizerMeaning {
  std::string node;  ///< for messages
  std::string op;    ///< Quant for IntQuant
  bool is_signed = true, narrow = false;
  std::string rounding;  ///< upper case, ROUND for HALF_EVEN
  /// scale, zero point, bit width, ...: the numbers of every input but the data; one number where all are
  /// equal. Of thresholds, what their count is multiplied by and what is added, too.
  std::vector<std::vector<double>> parameters;
  /// Of a constant: its values, and where it has them its levels (integer - zero point).
  std::optional<graph::ConstantValue> constant;
};

/// Those of the graph, in the order of its nodes. The graph is sorted, its shapes inferred.
std::vector<QuantizerMeaning> meanings_of(const graph::Graph& graph);

/// Throws Error that names the first quantizer that differs, and how: parameters, values, levels. In the same
/// order, or each like one of the others.
void expect_same(const std::vector<QuantizerMeaning>& meant, const std::vector<QuantizerMeaning>& found,
                 bool in_order);

/// The same of two graphs, in order, and a large constant part by part: what meanings_of() would hold of all
/// of them at once.
void expect_same_quantizers(const graph::Graph& meant, const graph::Graph& found);

/// Marks the quantizers of constants, so that expect_same_constants finds them again whatever passes do.
graph::Graph marked(graph::Graph graph);
graph::Graph unmarked(graph::Graph graph);

/// Whether passes have kept the constants of the marked quantizers: the values bit for bit, perhaps with
/// their axes, or the rows of a matrix, in another order. Throws Error that names the first that differs.
void expect_same_constants(const graph::Graph& before, const graph::Graph& after);

/// Whether the quantizers in `lowered` make the codes of every constant that `graph` keeps as codes: the same
/// levels, and values bit for bit. Throws Error that names the first that differs.
void expect_same_codes(const graph::Graph& graph, const graph::Graph& lowered);

}  // namespace crumb::exporting
