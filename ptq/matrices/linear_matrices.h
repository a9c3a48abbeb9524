// Matrices of linear layers that become codes, and the products that take them.
#pragma once

#include <string>
#include <vector>

#include "graph/adapters.h"
#include "ptq/stages.h"

namespace crumb::ptq {

struct LinearMatrix {
  const graph::PlannedConstant* constant = nullptr;
  std::vector<graph::LinearProduct> products;  ///< one or more
};

struct LinearMatrices {
  std::vector<LinearMatrix> matrices;
  std::vector<std::string> notes;  ///< on those that are left out

  /// ": " and the first of these, for a message; empty where there are none.
  std::string why_not() const { return notes.empty() ? "" : ": " + notes[0]; }
};

/// Those that have no codes yet, in the order of their first products. Something can stand beside them: nothing but such products
/// takes them, all in the same way, and no other matrix has their module's name.
LinearMatrices open_linear_matrices(const Setting& setting);

}  // namespace crumb::ptq
