// How many samples rounding is given where nobody said how: as many as do not take long.
#pragma once

#include <cstddef>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Whether a stage that rounds finds a layer, or a shared matrix, that becomes codes and has none yet.
bool has_open_layers(const Setting& setting);

/// The first of a setting's batches.
struct AffordableSamples {
  graph::Batches batches;
  std::size_t taken = 0, all = 0;
};

/// As many batches as `most` multiplications of a stage that rounds layer by layer come to, one at least: both networks run, and of
/// each layer's inputs second moments are summed (rounding_stage.h). Batches of which it cannot be said count nothing. It depends on shapes
/// alone, and on no machine. Precondition: the setting has samples.
AffordableSamples affordable_samples(const Setting& setting, double most);

}  // namespace crumb::ptq
