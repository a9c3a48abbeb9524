// What a decoder's predictions cost, places at a time, so that logits are never whole in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "libtorch/execute/cut_pass.h"
#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

struct LossShare {
  LanguageLoss loss = LanguageLoss::kDivergence;
  double temperature = 1;
  double all_places = 1;  ///< of the step, over which the loss is a mean
};

/// Gathers the loss' gradients at the pass' cut, and gives these places' part of the mean. `meant`: the float network's pass on
/// the same inputs; null for kNextToken. `ids` [batch, length]; `places`, in the rows one after the other, predict the next.
double gather_language_loss(const libtorch::CutPass& pass, const libtorch::CutPass* meant,
                            const LossShare& share, const at::Tensor& ids, const at::Tensor& places);

/// Cross entropy at these places, summed, in nats; no gradients.
double summed_next_token_loss(const libtorch::CutPass& pass, const at::Tensor& ids, const at::Tensor& places);

/// Squared error over squared size, token by token: of [..., width] each. No gradient reaches `meant`.
at::Tensor relative_errors(const at::Tensor& found, const at::Tensor& meant);

}  // namespace crumb::tasks
