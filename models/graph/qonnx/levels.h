// Arithmetic on Levels: what ranges of whole numbers become. Internal to models/graph/qonnx.
#pragma once

#include <optional>
#include <span>

#include "models/graph/qonnx/infer_datatypes.h"

namespace crumb::graph {

/// The levels of integers whose zero point is `shift`, a whole number or an odd number of halves.
Levels shifted(Levels levels, double shift);

/// The same grid with another range; bits and sign as that needs them.
Levels ranged(Levels levels, double low, double high);

/// Whether both count the same steps: one scale, known and equal.
bool same_grid(const Levels& a, const Levels& b);

/// Of a + b and a - b; nothing where the grids differ.
std::optional<Levels> sum_of(const ValueType& a, const ValueType& b, bool subtracts);

/// Times a constant, or divided by it: the levels stay. Nothing where a factor is not above zero.
std::optional<Levels> scaled(Levels levels, std::span<const double> factor, bool divides);

/// Bounds of the value itself, from its levels where it has no reach of its own.
std::optional<Reach> reach_of(const ValueType& value);

}  // namespace crumb::graph
