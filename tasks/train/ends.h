// The first and the last layer of a network, which keep 8-bit weights and inputs (arXiv:2401.10432, section 5).
#pragma once

#include "graph/graph.h"
#include "quant/recipe/recipe.h"

namespace crumb::tasks {

/// The recipe with rules behind its own: int8 weights with scales as the recipe's weights have them (for each channel
/// where these have groups), and, where the recipe quantizes activations, 8-bit integers as inputs, for the first and the last operator that multiplies by weights. An unrolled
/// recurrent layer has its weights from the recipe, as FINN-L has it (arXiv:1807.04093), and 8-bit inputs. Where the
/// recipe keeps weights, they stay, and so does what a rule of its own says of such a layer, by the name of its weight, its
/// layer or its node: its weights, its inputs, or both where it says neither.
Recipe with_eight_bit_ends(Recipe recipe, const graph::Graph& captured);

/// The recipe with a rule by which the first layer takes what is not quantized, as where the network's input counts 32
/// bits. It comes after the recipe's own.
Recipe with_float_input(Recipe recipe, const graph::Graph& captured);

}  // namespace crumb::tasks
