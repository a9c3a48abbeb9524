// Where an adapter's training begins: at what rounding took from the matrices.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

/// `fresh`, as request.recovery->start has it. With errors E = W - Q of a layer's matrix in its axes [in, out], `down` and `up`
/// become A sqrt(S) and sqrt(S) B of the nearest matrix A S B of the adapter's rank to E, or, whitened, R^-1/2 times that of
/// R^1/2 E, R [in, in] being the second moments of the layer's inputs in the quantized network, by `samples`, decoder inputs.
/// Ranks are recovery->ranks'.
/// Throws Error where the float network lacks one of the adapter's matrices or has it in another shape.
Adapter started_adapter(const LanguageRequest& request, Adapter fresh,
                        const std::vector<std::vector<at::Tensor>>& samples);

}  // namespace crumb::tasks
