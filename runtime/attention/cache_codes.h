// Which keys and values a cache may keep as codes: those that a quantizer made, with scales that are found as values come.
#pragma once

#include <cstddef>
#include <optional>

#include "formats/number/number_format.h"
#include "graph/graph.h"

namespace crumb::runtime {

struct RowCodes {
  const NumberFormat* number = nullptr;
  Range range = Range::kFull;
  std::size_t group = 0;  ///< numbers of a head that share a scale; 0: all of it

  bool operator==(const RowCodes&) const = default;
};

/// Of an Attention node; nothing where its input is what no quantizer made, or one whose format has no name.
struct CacheCodes {
  std::optional<RowCodes> keys, values;
};

/// Precondition: the graph has its constants.
CacheCodes cache_codes(const graph::Graph& graph, const graph::Links& links, const graph::Node& attention);

}  // namespace crumb::runtime
