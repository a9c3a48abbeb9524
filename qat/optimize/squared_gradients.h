// Squared gradients of a network's loss, sample by sample, by LibTorch's backward passes: the diagonal of the
// Fisher information, by which SqueezeLLM weighs weights (Kim et al. 2023, arXiv:2306.07629, equation 4).
#pragma once

#include "graph/gradient_engine.h"

namespace crumb::qat {

/// Returns the process's engine. It computes on one thread: on several, LibTorch adds up in an order that
/// depends on their number.
graph::GradientEngine& gradient_engine();

/// Returns the sign of an element of a result in kSigns: 1 or -1, by SplitMix64 of these four numbers.
float drawn_sign(std::size_t batch, std::size_t draw, std::size_t result, std::size_t element);

}  // namespace crumb::qat
