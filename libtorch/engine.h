// Graphs executed on LibTorch, behind interfaces that need no LibTorch header. One of each for the process.
#pragma once

#include "analysis/accumulator/register_engine.h"
#include "graph/engine.h"
#include "graph/engine_device.h"
#include "graph/torchscript_reader.h"

namespace crumb::libtorch {

graph::Engine& engine();
analysis::RegisterEngine& register_engine();
graph::TorchScriptReader& torchscript_reader();

/// Of both engines.
graph::EngineDevice& engine_device();

}  // namespace crumb::libtorch
