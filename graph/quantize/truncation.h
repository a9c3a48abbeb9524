// Average pools that give integers by dropping lower bits, as hardware divides (FINN, Brevitas'
// TruncAvgPool2d): the sum of a window's integers, shifted right until it has the requested bits, rounded
// down. A file has AveragePool, Mul by the size of the window, QONNX's Trunc, and a Mul that turns the
// shifted sums back into means.
//
// The result's scale follows from the input's: scale_in * 2^shift / size. Nothing is calibrated or learned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

class Constants;
struct PlannedEdge;
struct QuantPlan;

struct Truncation {
  std::size_t input = 0;   ///< index of the edge in front; edges of one scale group count as one
  std::int64_t size = 1;   ///< values of a window
  int bits = 0, kept = 0;  ///< bits of the sum, and of the result: the lowest bits - kept are dropped

  int shift() const { return bits - kept; }
  double factor() const;  ///< the result's scale over the input's: 2^shift / size
};

/// Sets `truncation` of every edge behind an average pool (operators.h) without padding, of known size, whose
/// input has integers of one constant scale without zero point; the edge's spec gets the input's sign. Other
/// edges keep their quantizers; the notes say which, and why.
void plan_truncations(const Graph& graph, const Links& links, const Constants& constants,
                      std::vector<PlannedEdge>& edges, std::vector<std::string>& notes);

/// Sets the scales of truncated edges from those of the edges in front; 0 (unknown) stays 0.
void derive_scales(QuantPlan& plan);

/// Returns the nodes from the pool's output to the truncated means, without names; the first has no data yet,
/// the last no output. A global pool with known sizes becomes an AveragePool with a kernel, which FINN
/// accepts. `input_scale`: of the edge in front.
std::vector<Node> truncating_nodes(Graph& graph, const PlannedEdge& edge, float input_scale);

}  // namespace crumb::graph
