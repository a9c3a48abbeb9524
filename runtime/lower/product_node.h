// A product of codes as a node of the runtime's domain. Internal to lower/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/lower/known.h"
#include "runtime/lower/made_graph.h"
#include "runtime/lower/weights.h"

namespace crumb::runtime {

/// A value of the graph that exists as codes.
struct Coded {
  std::string codes;  ///< the value's name
  UniformQuantizer quantizer;
  graph::ElementType type = graph::ElementType::kUnknown;
  bool has_floats = false;  ///< the value itself is there as well
};

/// The node without what is computed behind its sums: on codes, of weights as a kernel takes them, which are
/// added to the graph. `least` and `most`: of the sums. It has no outputs yet.
graph::Node product_node(MadeGraph& made_graph, const graph::Node& node, const Coded& x,
                         const IntegerWeight& w, const std::vector<std::int32_t>& least,
                         const std::vector<std::int32_t>& most);

}  // namespace crumb::runtime
