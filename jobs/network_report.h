// What becomes of a network's constants, one by one. Internal to jobs.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/quantize/plan.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::jobs {

/// Of the plan's constants, in its order; bytes as a packed file has them, before zstd. `quantized`: null of
/// a dry run, whose errors are 0.
std::vector<TensorReport> reports_of(const graph::Graph& before, const graph::QuantPlan& plan,
                                     const graph::Graph* quantized);

}  // namespace crumb::jobs
