// Graphs executed on LibTorch, behind the interface that needs no LibTorch header.
#pragma once

#include "graph/engine.h"

namespace crumb::libtorch {

/// One for the process.
graph::Engine& engine();

}  // namespace crumb::libtorch
