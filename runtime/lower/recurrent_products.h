// What lowering puts in front of a recurrent node: the products of its inputs, direction by direction. Internal
// to lower/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/lower/weights.h"

namespace crumb::runtime {

/// A MatMul without inputs, which are still to be given.
graph::Node product_in_front(const graph::Node& node, std::size_t direction, const std::string& output);

/// Rows of one direction, of a weight [rows, directions, terms].
IntegerWeight of_direction(const IntegerWeight& all, std::size_t direction, std::size_t directions,
                           std::size_t terms);

/// The codes [1, rows, terms] of one direction, whose rows are stored one behind the other, as a matrix with
/// these axes; nothing where they are stored otherwise.
std::optional<graph::QuantizedConstant> as_matrix(const graph::QuantizedConstant& constant,
                                                  std::vector<std::int64_t> axes);

}  // namespace crumb::runtime
