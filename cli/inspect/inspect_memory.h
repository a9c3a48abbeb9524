// crumb inspect --memory: what a run on the runtime takes beside the file, and where each value lies.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/output.h"
#include "graph/graph.h"
#include "runtime/memory/memory_use.h"

namespace crumb::cli {

/// Of a run on drawn inputs of these shapes; open dimensions are 1 otherwise. Throws Error where the runtime does not take the
/// graph.
runtime::MemoryUse memory_of(const graph::Graph& graph,
                             const std::map<std::string, std::vector<std::int64_t>>& shapes);

Json memory_json(const runtime::MemoryUse& use);
void print_memory(const runtime::MemoryUse& use);

}  // namespace crumb::cli
