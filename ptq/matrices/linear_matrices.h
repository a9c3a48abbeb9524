// Matrices of linear layers that become codes, and their products.
#pragma once

#include <string>
#include <vector>

#include "graph/adapters.h"
#include "ptq/stages.h"

namespace crumb::ptq {

struct LinearMatrix {
  const graph::PlannedConstant* constant = nullptr;
  std::vector<graph::LinearProduct> products;  ///< at least one
};

struct LinearMatrices {
  std::vector<LinearMatrix> matrices;
  std::vector<std::string> notes;  ///< about matrices that are left out

  /// Returns ": " and the first note, for a message; empty if there are none.
  std::string why_not() const { return notes.empty() ? "" : ": " + notes[0]; }
};

/// Returns the matrices without codes yet, in the order of their first products. Each can have a branch: only
/// such products take it, all in the same way, and no other matrix has their module's name.
LinearMatrices open_linear_matrices(const Setting& setting);

}  // namespace crumb::ptq
