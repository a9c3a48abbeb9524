// Computes squared gradients for stages by LibTorch, which is opened when a stage asks for them.
#pragma once

#include <string>

#include "graph/gradient_engine.h"
#include "ptq/stages.h"

namespace crumb::jobs {

/// `device`: "" for the CPU.
ptq::SquaredGradientsOf squared_gradients_by(graph::SampleLoss loss, const std::string& device);

}  // namespace crumb::jobs
