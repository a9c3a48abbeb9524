// What a decoder's predictions cost, positions at a time, so that logits are never whole in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "libtorch/execute/cut_pass.h"
#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

/// Whose logits are in memory at a time: 50 MB in a vocabulary of 49,152.
inline constexpr std::int64_t kPositionsAtOnce = 256;

struct LossShare {
  LanguageLoss loss = LanguageLoss::kDivergence;
  double all_positions = 1;  ///< of the step, over which the loss is a mean
};

/// What the float network says of a batch.
class Targets {
 public:
  virtual ~Targets() = default;

  /// Of predictions [1, positions, vocabulary] from its own at these positions, summed.
  virtual at::Tensor divergence(const at::Tensor& logits, const at::Tensor& positions) const = 0;

  /// What its last layer gives, [batch, length, width]; undefined where that is not known.
  virtual at::Tensor states() const { return {}; }
};

/// Gathers the loss' gradients at the pass' cut, and gives these positions' part of the mean. `targets`: null for kNextToken. `ids`
/// [batch, length]; `positions`, in the rows one after the other, predict the next.
double gather_language_loss(const libtorch::CutPass& pass, const Targets* targets, const LossShare& share,
                            const at::Tensor& ids, const at::Tensor& positions);

/// Of the float network's own pass on the same inputs.
class LiveTargets final : public Targets {
 public:
  LiveTargets(libtorch::CutPass pass, double temperature)
      : pass_(std::move(pass)), temperature_(temperature) {}
  at::Tensor divergence(const at::Tensor& logits, const at::Tensor& positions) const override;
  at::Tensor states() const override { return pass_.states(); }

 private:
  libtorch::CutPass pass_;
  double temperature_;
};

/// Cross entropy at these positions, summed, in nats; no gradients.
double summed_next_token_loss(const libtorch::CutPass& pass, const at::Tensor& ids,
                              const at::Tensor& positions);

/// Squared error over squared size, token by token: of [..., width] each. No gradient reaches `meant`.
at::Tensor relative_errors(const at::Tensor& found, const at::Tensor& meant);

}  // namespace crumb::tasks
