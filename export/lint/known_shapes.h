// Shapes that follow from arithmetic on shapes, which shape inference does not follow in older operator sets.
// Internal to export/lint.
#pragma once

#include "models/graph/graph.h"

namespace crumb::exporting {

/// Types and shapes of every value, as far as they follow. The nodes stay.
graph::Graph with_shapes(graph::Graph graph);

}  // namespace crumb::exporting
