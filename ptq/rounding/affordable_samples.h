// How many samples rounding gets if nobody chose: as many as do not take long.
#pragma once

#include <cstddef>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Whether a rounding stage would find a layer, or a shared matrix, that becomes codes and has none yet.
bool has_open_layers(const Setting& setting);

/// The first of a setting's batches.
struct AffordableSamples {
  graph::Batches batches;
  std::size_t taken = 0, all = 0;
};

/// Returns as many batches as rounding layer by layer can use within `most` multiplications, at least one: it
/// runs both networks and sums second moments of each layer's inputs (rounding_stage.h). Batches of unknown
/// cost count as nothing. The result depends on shapes alone, not on the machine. Precondition: the setting
/// has samples.
AffordableSamples affordable_samples(const Setting& setting, double most);

}  // namespace crumb::ptq
