// The first and the last layer of a network, which keep 8-bit weights and inputs (arXiv:2401.10432, section
// 5).
#pragma once

#include "graph/graph.h"
#include "quant/recipe/recipe.h"

namespace crumb::tasks {

/// Returns the recipe with further rules after its own, for the first and the last operator that multiplies
/// by weights: int8 weights, with scales like those of the recipe's weights (for each channel where these
/// have groups), and, where the recipe quantizes activations, 8-bit integers as inputs. An unrolled recurrent
/// layer has its weights from the recipe, as in FINN-L (arXiv:1807.04093), and 8-bit inputs. Where the recipe
/// keeps weights, they stay. So does what a rule of its own says of such a layer, by the name of its weight,
/// its layer or its node: its weights, its inputs, or both where the rule says neither.
Recipe with_eight_bit_ends(Recipe recipe, const graph::Graph& captured);

/// Returns the recipe with a rule after its own by which the first layer's input is not quantized, as where
/// the network's input counts as 32 bits.
Recipe with_float_input(Recipe recipe, const graph::Graph& captured);

}  // namespace crumb::tasks
