// Finds which keys and values a cache may keep as codes: those that a quantizer makes with scales that it
// finds at run time.
#pragma once

#include <cstddef>
#include <optional>

#include "formats/number/number_format.h"
#include "graph/graph.h"

namespace crumb::runtime {

struct RowCodes {
  const NumberFormat* number = nullptr;
  Range range = Range::kFull;
  std::size_t group = 0;  ///< numbers of a head that share a scale; 0: all of the head

  bool operator==(const RowCodes&) const = default;
};

/// For an Attention node's keys and values; nothing where no quantizer makes the input, or where its format
/// has no name.
struct CacheCodes {
  std::optional<RowCodes> keys, values;
};

/// Precondition: the graph has its constants.
CacheCodes cache_codes(const graph::Graph& graph, const graph::Links& links, const graph::Node& attention);

}  // namespace crumb::runtime
