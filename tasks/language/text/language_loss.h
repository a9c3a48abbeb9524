// The loss of a decoder's predictions, some positions at a time, so that never all logits are in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "libtorch/execute/cut_pass.h"
#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

/// The positions whose logits are in memory at a time: 50 MB in a vocabulary of 49,152.
inline constexpr std::int64_t kPositionsAtOnce = 256;

struct LossShare {
  LanguageLoss loss = LanguageLoss::kDivergence;
  double all_positions = 1;  ///< positions in the step; the loss is a mean over them
};

/// The float network's results for a batch.
class Targets {
 public:
  virtual ~Targets() = default;

  /// Returns the divergence of predictions [1, positions, vocabulary] from the float network's at these
  /// positions, summed.
  virtual at::Tensor divergence(const at::Tensor& logits, const at::Tensor& positions) const = 0;

  /// Returns the output of its last layer, [batch, length, width]; undefined where it is not known.
  virtual at::Tensor states() const { return {}; }
};

/// Gathers the loss's gradients at the pass's cut. Returns these positions' part of the mean. `targets`: null
/// for kNextToken. `ids` [batch, length]; `positions`, indices into the concatenated rows, predict the next
/// token.
double gather_language_loss(const libtorch::CutPass& pass, const Targets* targets, const LossShare& share,
                            const at::Tensor& ids, const at::Tensor& positions);

/// The results of the float network's own pass on the same inputs.
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

/// Returns the cross entropy at these positions, summed, in nats; no gradients.
double summed_next_token_loss(const libtorch::CutPass& pass, const at::Tensor& ids,
                              const at::Tensor& positions);

/// Returns squared error over squared size, token by token: [..., width] each. No gradient reaches `meant`.
at::Tensor relative_errors(const at::Tensor& found, const at::Tensor& meant);

}  // namespace crumb::tasks
