// Matrices of linear layers that become codes, and the products that take them.
#pragma once

#include <vector>

#include "graph/adapters.h"
#include "ptq/stages.h"

namespace crumb::ptq {

struct LinearMatrix {
  const graph::PlannedConstant* constant = nullptr;
  std::vector<graph::LinearProduct> products;  ///< one or more
};

/// Those that have no codes yet, in the order of their first products.
std::vector<LinearMatrix> open_linear_matrices(const Setting& setting);

}  // namespace crumb::ptq
