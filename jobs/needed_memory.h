// Estimates the memory that quantizing a network takes, before the work.
#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "graph/quantize/plan.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// Returns the least bytes that it takes: one for each code that the plan makes, and the largest weight in
/// floats; where activations are quantized, all weights in floats, since the float network runs.
std::uint64_t least_bytes(const graph::Graph& graph, const graph::QuantPlan& plan);

/// Throws Error where that is more than the process may take. `name`: of the network; `observer`: spells the
/// fields.
void expect_memory(const std::string& name, const graph::Graph& graph, const graph::QuantPlan& plan,
                   const Observer& observer);

}  // namespace crumb::jobs
