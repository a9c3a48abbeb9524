// Squared gradients for stages, by LibTorch, which is opened when they are asked for.
#pragma once

#include <string>

#include "graph/gradient_engine.h"
#include "ptq/stages.h"

namespace crumb::jobs {

/// `device`: "" for the cpu.
ptq::SquaredGradientsOf squared_gradients_by(graph::SampleLoss loss, const std::string& device);

}  // namespace crumb::jobs
