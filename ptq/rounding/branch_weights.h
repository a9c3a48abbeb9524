// What branches of linear layers add to their matrices: adapters (graph/adapters.h) and single weights
// (graph/sparse_products.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/adapters.h"
#include "graph/graph.h"
#include "graph/sparse_products.h"

namespace crumb::ptq {

class BranchWeights {
 public:
  BranchWeights() = default;  ///< no layer has a branch
  explicit BranchWeights(const graph::Graph& graph);

  /// Returns what branches add to this constant [out, in], row by row; empty if there are none.
  std::vector<float> of(const std::string& constant) const;

 private:
  std::map<std::string, std::vector<LowRankUpdate>> updates_;  ///< by constant
  std::map<std::string, graph::SparseMatrix> numbers_;
};

}  // namespace crumb::ptq
