// Starts an adapter's training from what rounding took from the matrices.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

/// Returns `fresh` with values by request.recovery->start. With errors E = W - Q of a layer's matrix in its
/// axes [in, out], `down` and `up` become A sqrt(S) and sqrt(S) B, where A S B is the matrix of the adapter's
/// rank nearest to E; whitened, A S B is R^-1/2 times the matrix nearest to R^1/2 E, where R [in, in] holds
/// the second moments of the layer's inputs in the quantized network on `samples`, which are decoder inputs.
/// recovery->ranks chooses the ranks. Throws Error where the float network lacks one of the adapter's
/// matrices or has it in another shape.
Adapter started_adapter(const LanguageRequest& request, Adapter fresh,
                        const std::vector<std::vector<at::Tensor>>& samples);

}  // namespace crumb::tasks
