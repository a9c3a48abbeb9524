// What pruning left of a network, for the report of a run.
#pragma once

#include "graph/graph.h"
#include "training/json.h"

namespace crumb::training {

/// {"pruned", "sparsity", "bops", "bops_dense", "layers": [{"name", "weights", "sparsity", "bops",
/// "bops_dense"}]} of a frozen network, as crumb cost counts: sparsity is the share of weights that are zero,
/// those that rounding made so among them; bops (arXiv:2102.11289, eq. 8, for one sample) leaves
/// multiplications by them out. `pruned`: the share that was taken.
Json pruning_json(const graph::Graph& frozen, double pruned);

}  // namespace crumb::training
