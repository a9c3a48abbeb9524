// What a network's outputs lose by what will become codes, on samples: by which stages are judged, whatever they say of layers.
#pragma once

#include <optional>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Squared errors of the outputs in floating point over their squares, averaged over outputs: of the network as the setting's plan makes
/// it (codes that no stage chose are those of rounding), beside the one in floats, over the first `most` batches. Keys and values
/// that a decoder keeps are no results. Infinite where outputs are not finite that were before, or have other shapes. Nothing
/// where there are no such outputs, or where the network in floats would have to lie in memory for it: where weights are read one at a
/// time, or take more bytes than the setting's memory. Ranges of activations that are not known yet are found on the way, and stay in the plan. Precondition: the
/// setting has an engine and samples.
std::optional<double> network_loss(Setting& setting, std::size_t most = 8);

}  // namespace crumb::ptq
