#include "tasks/language/text/language_loss.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>

#include "qat/distillation.h"

namespace crumb::tasks {
namespace {

/// Returns the rows of a batch [batch, length, width] at these positions: [1, positions, width].
at::Tensor rows_at(const at::Tensor& states, const at::Tensor& positions) {
  return states.flatten(0, 1).index_select(0, positions).unsqueeze(0);
}

at::Tensor next_token_losses(const at::Tensor& logits, const at::Tensor& ids, const at::Tensor& positions) {
  return at::cross_entropy_loss(logits.squeeze(0), ids.flatten().index_select(0, positions + 1), {},
                                at::Reduction::Sum);
}

/// Visits all of `positions`, some at a time.
template <class Visit>
void in_portions(const at::Tensor& positions, const Visit& visit) {
  for (std::int64_t begin = 0; begin < positions.numel(); begin += kPositionsAtOnce)
    visit(positions.narrow(0, begin, std::min(kPositionsAtOnce, positions.numel() - begin)));
}

}  // namespace

at::Tensor relative_errors(const at::Tensor& found, const at::Tensor& meant) {
  constexpr double kLeast = 1e-12;
  return (found - meant.detach()).square().sum(-1) / meant.detach().square().sum(-1).clamp_min(kLeast);
}

at::Tensor LiveTargets::divergence(const at::Tensor& logits, const at::Tensor& positions) const {
  const at::Tensor targets = [&] {
    const torch::NoGradGuard no_gradients;
    return pass_.behind(rows_at(pass_.states(), positions));
  }();
  return qat::distillation_loss(logits, targets, temperature_) * static_cast<double>(positions.numel());
}

double gather_language_loss(const libtorch::CutPass& pass, const Targets* targets, const LossShare& share,
                            const at::Tensor& ids, const at::Tensor& positions) {
  double sum = 0;
  const auto gather = [&](const at::Tensor& loss) {
    const at::Tensor part = loss / share.all_positions;
    sum += part.item<double>();
    part.backward();
  };
  const bool is_mix = share.loss == LanguageLoss::kMix;
  if (is_mix || share.loss == LanguageLoss::kHidden) {
    const at::Tensor errors =
        relative_errors(rows_at(pass.states(), positions), rows_at(targets->states(), positions)).sum();
    gather(is_mix ? errors / 2 : errors);
    if (!is_mix) return sum;
  }
  in_portions(positions, [&](const at::Tensor& some) {
    const at::Tensor logits = pass.behind(rows_at(pass.states(), some));
    if (share.loss == LanguageLoss::kDivergence) return gather(targets->divergence(logits, some));
    const at::Tensor loss = next_token_losses(logits, ids, some);
    gather(is_mix ? loss / 2 : loss);
  });
  return sum;
}

double summed_next_token_loss(const libtorch::CutPass& pass, const at::Tensor& ids,
                              const at::Tensor& positions) {
  const torch::NoGradGuard no_gradients;
  double sum = 0;
  in_portions(positions, [&](const at::Tensor& some) {
    sum += next_token_losses(pass.behind(rows_at(pass.states(), some)), ids, some).item<double>();
  });
  return sum;
}

}  // namespace crumb::tasks
