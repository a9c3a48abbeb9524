// Where quantizers of activations stand, and which of them have a zero point, as samples say.
//
// Of quantizers that a network can do without (OptionalQuantizers), and of those who take a quantized value without need, each is
// measured alone (edge_costs.h). R is the noise over signal of the outputs with all that is needed.
//   - An input of the graph stays in floats where it costs more than R and more than 30 dB allow (10^-3); not in fewer than
//     8 bits, which somebody asked for.
//   - Where less than 20 dB would be left, what a product takes in stays in floats, too: the value that costs most alone, as long as that is a
//     quarter of the noise, and of a quarter of the values at most. Not what a rule names, nor in fewer than 8 bits.
//   - Residual sums, average pools and takers without need: the cheapest of them are quantized, as many as cost together a quarter
//     of R (1 dB), or whatever leaves 40 dB.
//   - What a concatenation joins shares its scale. Where that is more than twice what a value has by itself that others take
//     too, the result is quantized in place of what it joins.
//
// A value that may be negative has the signed twin of an unsigned spec, or a zero point: what loses less of the values, by 1 dB at
// least. Those that share a scale have it together. Cells of recurrent layers have none.
#pragma once

#include "graph/engine.h"
#include "graph/quantize/calibrate.h"
#include "graph/quantize/plan.h"

namespace crumb::graph {

/// A calibrated plan; `options` by which plan_quantizers makes it again. Where nothing may be chosen (Placement::kEverywhere), plan
/// and calibrate() alone. Throws what these two throw.
QuantPlan choose_by_samples(const Graph& graph, const Recipe& recipe, PlanOptions& options,
                            const Engine& engine, const Batches& batches);

/// Fills in what each edge costs alone. Measured on the first samples, for as long as calibrating and comparing take, those first
/// that lose most of their values; what is left has no cost.
void measure_costs(const Graph& graph, const Engine& engine, const Batches& batches, QuantPlan& plan);

}  // namespace crumb::graph
