// What a bit of each weight costs, in bit operations. Free of LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "graph/graph.h"

namespace crumb::qat {

/// Bit operations of one sample ("Ps and Qs", arXiv:2102.11289, eq. 8, no weight pruned): the sum over the
/// weights of per_bit * (bits of the weight), plus the rest.
struct BopsByWeight {
  std::map<std::string, std::uint64_t> per_bit;
  double rest = 0;
};

/// Returns those of these initializers. The graph has quantizers on its edges. Throws as graph::cost_of()
/// does.
BopsByWeight bops_by_weight(const graph::Graph& graph, const std::set<std::string>& weights);

}  // namespace crumb::qat
