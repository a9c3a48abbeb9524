// Measures on samples what the codes of a plan cost a network's outputs, by which stages are judged, whatever
// they report of layers.
#pragma once

#include <optional>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Returns squared errors of the floating-point outputs over their squares, averaged over outputs: of the
/// network with the setting's plan (constants for which no stage chose codes are rounded), compared with the
/// float network, over the first `most` batches. A decoder's cached keys and values are not counted. Infinite
/// where outputs become not finite, or have other shapes. Nothing where there are no such outputs, or where
/// the float network would have to be read into memory: where weights are read one at a time, or take more
/// bytes than the setting's memory. Finds unknown ranges of activations, which stay in the plan.
/// Precondition: the setting has an engine and samples.
std::optional<double> network_loss(Setting& setting, std::size_t most = 8);

}  // namespace crumb::ptq
