// Decides by samples where quantizers of activations go, and which of them have a zero point.
//
// Of quantizers that a network can do without (OptionalQuantizers), and of consumers that take a quantized
// value without need, each is measured alone (edge_costs.h). R is the noise over signal of the outputs with
// all that is needed.
//   - An input of the graph stays float if its quantizer costs more than R and more than 10^-3 (30 dB), but
//     not in fewer than 8 bits, which somebody requested.
//   - If less than 20 dB would remain, inputs of products stay float, too: the value that costs most alone,
//     as long as that is a quarter of the noise, and a quarter of the values at most. Not values that a rule
//     names, nor in fewer than 8 bits.
//   - Of residual sums, average pools and consumers without need the cheapest are quantized: as many as cost
//     together a quarter of R (1 dB), or as leave 40 dB.
//   - The inputs of a concatenation share its scale. If that is more than twice the own scale of a value with
//     other consumers, the result is quantized instead of the inputs.
//
// A value that may be negative gets the signed twin of an unsigned spec, or a zero point: whichever loses
// less of the values, by 1 dB at least. Edges that share a scale decide together. Cells of recurrent layers
// have no zero point.
#pragma once

#include "graph/batch_axes.h"
#include "graph/engine.h"
#include "graph/quantize/calibrate.h"
#include "graph/quantize/plan.h"

namespace crumb::graph {

/// Returns a calibrated plan; plan_quantizers makes it again with `options`. Where there is no choice
/// (Placement::kEverywhere), that is the plan with calibrate(). `axes`: where inputs have samples. Throws
/// what these two throw.
QuantPlan choose_by_samples(const Graph& graph, const Recipe& recipe, PlanOptions& options,
                            const Engine& engine, const Batches& batches, const BatchAxes& axes = {});

/// Sets the cost of each edge alone. Measures on the first samples, for as long as calibrating and comparing
/// take, in the order of the share of their values that edges lose; the remaining edges get no cost.
void measure_costs(const Graph& graph, const Engine& engine, const Batches& batches, QuantPlan& plan,
                   const BatchAxes& axes = {});

}  // namespace crumb::graph
