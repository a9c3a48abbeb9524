// Which numbers a quantizer of activations cuts off.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/tensor.h"
#include "jobs/evaluate/layers/layered_network.h"

namespace crumb::jobs {

/// Counts numbers that round to a code beyond the quantizer's, as crumb quantize counts them: half a step
/// beyond the last one. Nothing for quantizers that cut nothing off: binary ones, and those whose scale
/// follows from the values.
std::optional<std::uint64_t> count_clipped(const LayeredNetwork& network, const graph::Node& quantizer,
                                           const graph::Tensor& values);

}  // namespace crumb::jobs
