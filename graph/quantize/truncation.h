// Average pools that end in integers by cutting off lower bits, as hardware divides (FINN, Brevitas' TruncAvgPool2d):
// the sum of a window's integers, shifted down until it has the bits that are wanted, floor. In a file AveragePool, Mul
// by the size of the window, Trunc of QONNX, and a Mul that brings the shifted sums back to means.
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
  std::size_t input = 0;   ///< the edge in front, by its number; those that share its scale count as one
  std::int64_t size = 1;   ///< values of a window
  int bits = 0, kept = 0;  ///< of the sum, and of the result: the least significant bits - kept are cut off

  int shift() const { return bits - kept; }
  double factor() const;  ///< result's scale over the input's: 2^shift / size
};

/// Sets `truncation` of every edge behind an average pool (operators.h) without padding, of known size, whose input has integers of one constant scale without zero point; its spec gets the input's sign. The
/// others keep their quantizers; the notes say which, and why.
void plan_truncations(const Graph& graph, const Links& links, const Constants& constants,
                      std::vector<PlannedEdge>& edges, std::vector<std::string>& notes);

/// Scales of truncated edges, from those in front of them. Where these are not known (0), nor is theirs.
void derive_scales(QuantPlan& plan);

/// What is behind the pool, from its output to the truncated means: nodes without a name, the first without data, the
/// last without an output. A global pool with known sizes becomes an AveragePool with a kernel, which FINN takes.
/// `input_scale`: of the edge in front.
std::vector<Node> truncating_nodes(Graph& graph, const PlannedEdge& edge, float input_scale);

}  // namespace crumb::graph
