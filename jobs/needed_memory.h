// What quantizing a network takes in memory, said before the work.
#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "graph/quantize/plan.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// Bytes that it takes at the least: codes, one byte each, of what the plan quantizes, and beside them the
/// largest weight in floats; where activations are quantized, for which the float network runs, all weights
/// in floats.
std::uint64_t least_bytes(const graph::Graph& graph, const graph::QuantPlan& plan);

/// Throws Error where that is more than the process may take. `name`: of the network; `observer`: how fields
/// are called.
void expect_memory(const std::string& name, const graph::Graph& graph, const graph::QuantPlan& plan,
                   const Observer& observer);

}  // namespace crumb::jobs
