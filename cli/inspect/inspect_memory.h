// crumb inspect --memory: the memory of a run on the runtime in addition to the file, and where each value is
// stored.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/output.h"
#include "graph/graph.h"
#include "runtime/memory/memory_use.h"

namespace crumb::cli {

/// Returns the memory of a run on random inputs of these shapes; open dimensions that no shape gives are 1.
/// Throws Error where the runtime does not take the graph.
runtime::MemoryUse memory_of(const graph::Graph& graph,
                             const std::map<std::string, std::vector<std::int64_t>>& shapes);

Json memory_json(const runtime::MemoryUse& use);
void print_memory(const runtime::MemoryUse& use);

}  // namespace crumb::cli
