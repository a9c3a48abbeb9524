// Reports what happens to each constant of a network. Internal to jobs.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/quantize/plan.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::jobs {

/// Returns a report for each of the plan's constants, in its order; bytes are those in a packed file, before
/// zstd. `quantized`: null in a dry run, whose errors are 0.
std::vector<TensorReport> reports_of(const graph::Graph& before, const graph::QuantPlan& plan,
                                     const graph::Graph* quantized);

}  // namespace crumb::jobs
