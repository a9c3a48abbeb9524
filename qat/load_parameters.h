// Reads a network's parameters from an archive that may hold the float network's alone.
#pragma once

#include <torch/nn/module.h>

namespace crumb::qat {

/// Reads every parameter and buffer that the archive has. Parameters outside "quantizers" must be there:
/// throws Error that names those that are missing or whose shape differs. Returns whether the archive holds
/// quantizers; if it holds any of them, it must hold all.
bool load_parameters(torch::nn::Module& module, torch::serialize::InputArchive& archive);

}  // namespace crumb::qat
